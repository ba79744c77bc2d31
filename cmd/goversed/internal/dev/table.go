package dev

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/sharding/shardview"
	"github.com/goverse/goverse/internal/state"
)

// slotState is the part of a nodeSlot that the table shows.
type slotState struct {
	address, http   string
	pid             int           // 0 while no process runs
	age             time.Duration // of the process
	joined          bool          // the process was registered at some time
	deadIncarnation int64         // incarnation that died with the last process
}

type tableRow struct {
	address, http, pid, state, term, queue, shards, age string
	leads                                               bool
}

// tableRows returns the table of a snapshot: our nodes in their order, then other members, then candidates that are
// not members. The snapshot is nil before the first one.
func tableRows(s *state.Snapshot, slots []slotState) []tableRow {
	if s == nil {
		s = &state.Snapshot{}
	}
	shards, _ := shardview.New(s) // empty without a map
	var out []tableRow
	ours := map[string]bool{}
	for _, at := range slots {
		ours[at.address] = true
		r := tableRow{address: at.address, http: shortHTTPAddress(at.address, at.http), pid: "-", state: "down", age: "-"}
		if at.pid != 0 {
			r.pid, r.state, r.age = strconv.Itoa(at.pid), "starting", formatDuration(at.age)
			if at.joined { // it is paused, or ending
				r.state = "not registered"
			}
		}
		switch m := s.Member(at.address); {
		case m != nil && m.Incarnation == at.deadIncarnation:
			if at.pid != 0 {
				r.state = "taking over"
			} else {
				r.state = "dead"
			}
		case m != nil && at.pid != 0:
			fillRow(&r, s, m, shards)
		}
		out = append(out, r)
	}
	for _, m := range s.Members {
		if !ours[m.Address] {
			r := tableRow{address: m.Address, http: shortHTTPAddress(m.Address, m.HTTPAddress), pid: "-", age: "-"}
			fillRow(&r, s, m, shards)
			out = append(out, r)
		}
	}
	leader := s.Leader()
	for i, c := range s.Queue {
		if s.MemberOf(c) == nil {
			r := tableRow{address: c.Address, http: "not a node", pid: "-", state: "candidate", queue: strconv.Itoa(i + 1),
				age: "-"}
			if c.CreateRevision == leader.Token {
				r.state, r.term, r.leads = "leader", strconv.FormatInt(leader.Token, 10), true
			}
			out = append(out, r)
		}
	}
	return out
}

// shortHTTPAddress returns an HTTP address without its host if that is also the node's, so that a row fits into 80
// columns.
func shortHTTPAddress(node, http string) string {
	host, _, err := net.SplitHostPort(node)
	if same, port, herr := net.SplitHostPort(http); err == nil && herr == nil && same == host {
		return ":" + port
	}
	return http
}

// fillRow fills in a member's columns from the snapshot.
func fillRow(r *tableRow, s *state.Snapshot, m *state.Member, shards shard.Table) {
	if own := shards.Owner(m.Address, m.Incarnation); own.Address != "" {
		r.shards = strconv.Itoa(own.MayServe)
	}
	r.state = "follower"
	if c, place := s.CandidateOn(m.Lease); c != nil {
		r.state, r.queue = "candidate", strconv.Itoa(place+1)
	}
	if l := s.Leader(); l.Member && l.Lease == m.Lease {
		r.state, r.term, r.leads = "leader", strconv.FormatInt(l.Token, 10), true
	}
	if m.Stopping {
		r.state = "stopping"
	}
}

// tableView holds everything the live table shows.
type tableView struct {
	endpoint     string
	leader       string // "" while there is none
	ledFor       time.Duration
	uptime       time.Duration
	kills        int
	killing      bool // the user asked for kills
	lastFailover time.Duration
	served       int
	shards       int // 0 while there is no map
	// dashboard is the URL of a running node's dashboard, "" while no node's process runs.
	dashboard string
	color     bool
	rows      []tableRow
}

// dashboardLines is the least height of a window that also shows a dashboard's URL.
const dashboardLines = 16

// render lays the view out in at most the given columns and rows of a terminal.
func (v tableView) render(columns, lines int) []string {
	leader := "no leader"
	if v.leader != "" {
		leader = fmt.Sprintf("leader %s for %s", v.leader, formatDuration(v.ledFor))
	}
	out := []string{"", clipLine(fmt.Sprintf("%s, up %s", leader, formatDuration(v.uptime)), columns)}
	if v.killing {
		kills := fmt.Sprintf(", %s", formatCount(v.kills, "kill", "kills"))
		if v.lastFailover > 0 {
			kills += ", last gap " + formatDuration(v.lastFailover)
		}
		out[1] = clipLine(out[1]+kills, columns)
	}
	all := append([]tableRow{{"NODE", "HTTP", "PID", "STATE", "TERM", "QUEUE", "SHARDS", "AGE", false}}, v.rows...)
	// Reserve two lines above the table, one below, the cursor's line, and a third of the window for the last
	// events.
	left, link := 0, 0
	if v.dashboard != "" && lines >= dashboardLines {
		link = 1
	}
	if room := max(lines-4-link-lines/3, 3); len(all) > room {
		left = len(all) - (room - 1)
		all = all[:room-1]
	}
	wide := make([]int, 8)
	for _, r := range all {
		for i, cell := range r.cells() {
			wide[i] = max(wide[i], utf8.RuneCountInString(cell))
		}
	}
	for _, r := range all {
		var b strings.Builder
		for i, cell := range r.cells() {
			if i > 0 {
				b.WriteString("  ")
			}
			fmt.Fprintf(&b, "%-*s", wide[i], cell)
		}
		out = append(out, rowStyle(r, v.color).paint(clipLine(strings.TrimRight(b.String(), " "), columns)))
	}
	if left > 0 {
		out = append(out, clipLine(fmt.Sprintf("and %d more: make the window higher", left), columns))
	}
	if link > 0 {
		out = append(out, clipLine("dashboard "+v.dashboard, columns))
	}
	last := "etcd " + v.endpoint + ", Ctrl-C ends"
	if v.shards > 0 {
		last = fmt.Sprintf("%d of %d shards served, %s", v.served, v.shards, last)
	}
	return append(out, clipLine(last, columns))
}

func (r tableRow) cells() []string {
	return []string{r.address, r.http, r.pid, r.state, r.term, r.queue, r.shards, r.age}
}

// clipLine shortens a line to the width of the terminal, because a wrapped line cannot be redrawn in place.
func clipLine(line string, columns int) string {
	runes := []rune(line)
	if len(runes) <= columns {
		return line
	}
	return string(runes[:max(columns, 0)])
}

// wrapLine breaks a line between words so that no part is longer than columns, if the words allow it. Further lines
// are indented.
func wrapLine(line string, columns, indent int) []string {
	var out []string
	for len(line) > columns {
		at := strings.LastIndexByte(line[:columns+1], ' ')
		if at <= indent {
			break
		}
		out = append(out, line[:at])
		line = strings.Repeat(" ", indent) + line[at+1:]
	}
	return append(out, line)
}
