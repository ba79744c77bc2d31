package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Severity ranks a finding.
type Severity int

// Severities in ascending order.
const (
	OK      Severity = iota // as it should be
	Note                    // worth knowing
	Warning                 // works, but not after another failure
	Problem                 // does not work
)

// String returns the severity as one word.
func (s Severity) String() string {
	return [...]string{"ok", "note", "warning", "problem"}[s]
}

// MarshalText returns the word of String.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the word of MarshalText.
func (s *Severity) UnmarshalText(text []byte) error {
	for one := OK; one <= Problem; one++ {
		if one.String() == string(text) {
			*s = one
			return nil
		}
	}
	return fmt.Errorf("no severity: %q", text)
}

// Names of checks, by which programs can tell findings apart.
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

// Finding is one result of a check.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// Description describes the finding in one line.
	Description string `json:"says"`
	// Remedy is the recommended action. It is never empty above Note.
	Remedy string `json:"remedy,omitempty"`
}

// Worst returns the greatest severity of the findings.
func Worst(all []Finding) Severity {
	worst := OK
	for _, f := range all {
		worst = max(worst, f.Severity)
	}
	return worst
}

// Diagnose runs all checks on the facts. It returns at least one finding, and no duplicates.
func Diagnose(f Facts) []Finding {
	var out []Finding
	for _, check := range []func(Facts) []Finding{diagnoseEndpoints, diagnoseCertificates, diagnoseQuorum,
		diagnoseLearners, diagnoseAlarms, diagnoseSpace,
		diagnoseVersions, diagnoseLatency, diagnoseTTL, diagnosePermissions, diagnoseClocks, diagnosePrefix, diagnoseValues,
		diagnoseLeader, diagnoseFallback, diagnoseShards, diagnoseAddresses, diagnoseStatus, diagnoseCrashDetection,
		diagnoseLeases, diagnoseUnread} {
		for _, one := range check(f) {
			if !slices.Contains(out, one) {
				out = append(out, one)
			}
		}
	}
	return out
}

type findings struct {
	check string
	all   []Finding
}

func (c *findings) add(s Severity, remedy, format string, args ...any) {
	c.all = append(c.all, Finding{Check: c.check, Severity: s, Description: fmt.Sprintf(format, args...), Remedy: remedy})
}

// orOKFinding returns the findings, or a single OK finding if there are none.
func (c *findings) orOKFinding(format string, args ...any) []Finding {
	if len(c.all) == 0 {
		c.add(OK, "", format, args...)
	}
	return c.all
}

// joinNames joins at most five names, and adds the number of the others.
func joinNames(names []string) string {
	const limit = 5
	if more := len(names) - limit; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), more)
	}
	return strings.Join(names, ", ")
}

// formatDuration formats a duration with about three digits.
func formatDuration(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

// formatCount formats a number with a noun: "1 node", "2 nodes".
func formatCount(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
