package leaderonly

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	other := Leader{Name: "b:1", URL: there, Token: 5}
	for name, c := range map[string]struct {
		leader            Leader
		next, held, tried bool
		hint              requestHint
		want              decision
		moment            time.Duration
	}{
		"another one leads":                       {leader: other, want: decisionElsewhere},
		"another one leads, and this is next":     {leader: other, next: true, want: decisionElsewhere},
		"nobody leads":                            {want: decisionHold},
		"this one is about to lead, or gives way": {leader: Leader{Name: "a:1", Own: true}, want: decisionHold},
		"it came again, and this is next": {leader: other, next: true, hint: requestHint{retry: true},
			want: decisionWaitBriefly, moment: takeoverWait},
		"it came again": {leader: other, hint: requestHint{retry: true},
			want: decisionWaitBriefly, moment: settleDelay},
		"it waited for the leader, which leads now": {leader: other, held: true, want: decisionWaitBriefly,
			moment: settleDelay},
		"that leader could not be reached": {leader: other, tried: true, want: decisionHold},
		"the node that forwarded it knows a newer term": {leader: other,
			hint: requestHint{forwarded: true, token: 6}, want: decisionWaitBriefly, moment: takeoverWait},
		"it knows the same term":     {leader: other, hint: requestHint{forwarded: true, token: 5}, want: decisionElsewhere},
		"it does not know the token": {leader: other, hint: requestHint{forwarded: true}, want: decisionElsewhere},
		"the token is not known here, as of an elector's": {leader: Leader{Name: "b"},
			hint: requestHint{forwarded: true, token: 6}, want: decisionElsewhere},
	} {
		what, moment := decideRequest(c.leader, c.next, c.hint, c.held, c.tried)
		require.Equal(t, c.want, what, name)
		require.Equal(t, c.moment, moment, name)
	}
}

func TestURL(t *testing.T) {
	for address, want := range map[string]string{
		":80":                       "",
		"0.0.0.0:80":                "",
		"http://[::]:80":            "",
		"":                          "",
		"10.0.0.1:80":               "http://10.0.0.1:80",
		"https://leader.example":    "https://leader.example",
		"https://leader.example/x/": "https://leader.example",
		"http://[::1":               "",
		"ftp://leader.example":      "",
		"javascript://x":            "",
	} {
		require.Equal(t, want, URL(address), address)
	}
}
