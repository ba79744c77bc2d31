package dev

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
)

func TestRows(t *testing.T) {
	t.Parallel()
	other := newMember("z:1", 9)
	other.HTTPAddress = "z:2"
	s := &state.Snapshot{
		Members: memberList{newMember("a:1", 1), stoppingMember(newMember("b:1", 2)), newMember("c:1", 3),
			newMember("d:1", 4), newMember("e:1", 5),
			other},
		Queue: candidateList{newCandidate("x", 77, 10), newCandidate("a:1", 1, 11), newCandidate("b:1", 2, 12)},
	}
	slots := []slotState{
		{address: "a:1", http: "a:2", pid: 100, age: 3 * time.Second},
		{address: "b:1", http: "b:2", pid: 101},
		{address: "c:1", http: "c:2", pid: 102, deadIncarnation: 3},
		{address: "d:1", http: "d:2", deadIncarnation: 4},
		{address: "e:1", http: "e:2", pid: 104},
		{address: "f:1", http: "f:2", pid: 105},
		{address: "g:1", http: "g:2"},
		{address: "h:1", http: "h:2", pid: 106, joined: true},
	}
	require.Equal(t, []tableRow{
		{"a:1", ":2", "100", "candidate", "", "2", "", "3.00 s", false},
		{"b:1", ":2", "101", "stopping", "", "3", "", "0.0 ms", false},
		{"c:1", ":2", "102", "taking over", "", "", "", "0.0 ms", false},
		{"d:1", ":2", "-", "dead", "", "", "", "-", false},
		{"e:1", ":2", "104", "follower", "", "", "", "0.0 ms", false},
		{"f:1", ":2", "105", "starting", "", "", "", "0.0 ms", false},
		{"g:1", ":2", "-", "down", "", "", "", "-", false},
		{"h:1", ":2", "106", "not registered", "", "", "", "0.0 ms", false},
		{"z:1", ":2", "-", "follower", "", "", "", "-", false},
		{"x", "not a node", "-", "leader", "10", "1", "", "-", true},
	}, tableRows(s, slots))

	s.ShardMap = shardMap(t, 10, nil, "a:1", 1, "b:1", 2, "d:1", 4)
	r := tableRows(s, slots)
	require.Equal(t, []string{"4", "3", "", "", "", "", "", "", "", ""}, shardsOf(r), "who is dead serves none")

	s.Queue = s.Queue[1:]
	r = tableRows(s, slots)
	require.Equal(t, tableRow{"a:1", ":2", "100", "leader", "11", "1", "4", "3.00 s", true}, r[0])
	require.Len(t, r, 9, "the other program is gone")
	require.Equal(t, "starting", tableRows(nil, slots)[0].state, "before the first snapshot")
}

func shardsOf(rows []tableRow) (shards []string) {
	for _, r := range rows {
		shards = append(shards, r.shards)
	}
	return shards
}

func TestRender(t *testing.T) {
	t.Parallel()
	v := tableView{endpoint: "127.0.0.1:20000", leader: "127.0.0.1:20001", ledFor: 2 * time.Second, uptime: time.Minute,
		rows: []tableRow{
			{"127.0.0.1:20001", ":20002", "4194304", "leader", "123456", "1", "8192", "59.9 s", true},
			{"127.0.0.1:20003", ":20004", "4194305", "taking over", "", "", "", "100 ms", false},
		}}
	require.Equal(t, []string{
		"",
		"leader 127.0.0.1:20001 for 2.00 s, up 1m00s",
		"NODE             HTTP    PID      STATE        TERM    QUEUE  SHARDS  AGE",
		"\x1b[1m127.0.0.1:20001  :20002  4194304  leader       123456  1      8192    59.9 s\x1b[0m",
		"127.0.0.1:20003  :20004  4194305  taking over                         100 ms",
		"etcd 127.0.0.1:20000, Ctrl-C ends",
	}, v.render(80, 24))

	colored := v
	colored.color = true
	require.Equal(t, strings.Replace(v.render(80, 24)[3], "\x1b[1m", "\x1b[1;32m", 1), colored.render(80, 24)[3])
	require.Equal(t, "\x1b[33m"+v.render(80, 24)[4]+"\x1b[0m", colored.render(80, 24)[4])

	v.served, v.shards = 8190, 8192
	require.Equal(t, "8190 of 8192 shards served, etcd 127.0.0.1:20000, Ctrl-C ends", v.render(80, 24)[5])

	v.dashboard = "http://127.0.0.1:20002/"
	got := v.render(80, 24)
	require.Equal(t, "dashboard http://127.0.0.1:20002/", got[len(got)-2])
	require.Len(t, v.render(80, dashboardLines-1), len(got)-1, "a low window has no room for it")

	v.leader, v.killing, v.kills, v.lastFailover = "", true, 1, 120*time.Millisecond
	require.Equal(t, "no leader, up 1m00s, 1 kill, last gap 120 ms", v.render(80, 24)[1])
}

// The block fits any window, because lines that wrap or scroll cannot be redrawn in place.
func TestRenderFits(t *testing.T) {
	t.Parallel()
	v := tableView{endpoint: "127.0.0.1:20000", leader: strings.Repeat("é", 60), killing: true,
		dashboard: "http://127.0.0.1:20002/"}
	for range 40 {
		v.rows = append(v.rows, tableRow{"127.0.0.1:20001", ":20002", "1234567", "taking over", "1234567", "12", "", "59.9 s",
			true})
	}
	for _, size := range [][2]int{{80, 24}, {80, 100}, {40, 10}, {20, 8}, {1, 8}} {
		got := v.render(size[0], size[1])
		require.Less(t, len(got), size[1], "%v", size)
		for _, line := range got {
			line = strings.NewReplacer("\x1b[1m", "", "\x1b[0m", "").Replace(line)
			require.LessOrEqual(t, utf8.RuneCountInString(line), size[0], line)
		}
	}
	short := v.render(80, 24)
	require.Equal(t, "and 31 more: make the window higher", short[len(short)-3])
	require.Len(t, v.render(80, 100), 45, "nothing is left out where there is room")
}

func TestWrap(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"1s  one two", "    three", "    four"}, wrapLine("1s  one two three four", 12, 4))
	require.Equal(t, []string{"1s  one two"}, wrapLine("1s  one two", 11, 4), "it fits")
	require.Equal(t, []string{"1s  onetwothree"}, wrapLine("1s  onetwothree", 8, 4), "a word stays whole")
	require.Equal(t, []string{"1s  one", "    twothreefour"}, wrapLine("1s  one twothreefour", 8, 4))
}
