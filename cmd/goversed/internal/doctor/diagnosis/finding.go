package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Severity says what a finding asks for.
type Severity int

// The severities, in their order.
const (
	OK      Severity = iota // as it should be
	Note                    // worth knowing
	Warning                 // works, and will not when something else fails
	Problem                 // does not work
)

// String is the severity in one word.
func (s Severity) String() string {
	return [...]string{"ok", "note", "warning", "problem"}[s]
}

// MarshalText is String.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Severity) UnmarshalText(text []byte) error {
	for one := OK; one <= Problem; one++ {
		if one.String() == string(text) {
			*s = one
			return nil
		}
	}
	return fmt.Errorf("no severity: %q", text)
}

// The checks, by which a program knows what a finding is about.
const (
	CheckEndpoints = "endpoints"
	CheckLogin     = "login"
	CheckCerts     = "certificates"
	CheckQuorum    = "quorum"
	CheckLearners  = "learners"
	CheckAlarms    = "alarms"
	CheckSpace     = "space"
	CheckVersions  = "versions"
	CheckLatency   = "latency"
	CheckTTL       = "ttl"
	CheckAccess    = "access"
	CheckClocks    = "clocks"
	CheckPrefix    = "prefix"
	CheckValues    = "values"
	CheckLeader    = "leader"
	CheckFallback  = "fallback"
	CheckShards    = "shards"
	CheckAddresses = "addresses"
	CheckHTTP      = "http"
	CheckCrashes   = "crash-detection"
	CheckLeases    = "leases"
	CheckUnread    = "unread"
)

// Finding is one thing that was found.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// Says is what is so, in one line.
	Says string `json:"says"`
	// Remedy is what to do about it: never empty above Note.
	Remedy string `json:"remedy,omitempty"`
}

// Worst is the greatest severity among the findings.
func Worst(all []Finding) Severity {
	worst := OK
	for _, f := range all {
		worst = max(worst, f.Severity)
	}
	return worst
}

// Diagnose judges the facts, check by check. It returns at least one finding, and none twice.
func Diagnose(f Facts) []Finding {
	var out []Finding
	for _, check := range []func(Facts) []Finding{endpoints, certificates, quorum, learners, alarms, space,
		versions, latency, ttl, permissions, clocks, prefix, values, leader, fallback, shards, addresses, status, crashes,
		leases, unread} {
		for _, one := range check(f) {
			if !slices.Contains(out, one) {
				out = append(out, one)
			}
		}
	}
	return out
}

// findings collects those of one check.
type findings struct {
	check string
	all   []Finding
}

func (c *findings) add(s Severity, remedy, format string, args ...any) {
	c.all = append(c.all, Finding{Check: c.check, Severity: s, Says: fmt.Sprintf(format, args...), Remedy: remedy})
}

// orOK is what was found, or that all is well.
func (c *findings) orOK(format string, args ...any) []Finding {
	if len(c.all) == 0 {
		c.add(OK, "", format, args...)
	}
	return c.all
}

// listed is at most five of the names, and how many more there are.
func listed(names []string) string {
	const limit = 5
	if more := len(names) - limit; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), more)
	}
	return strings.Join(names, ", ")
}

// short is a duration with three digits.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

// count is a number and what it counts: "1 node", "2 nodes".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
