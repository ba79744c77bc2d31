package operator

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/pgnode"
)

// The printers write text, or one JSON value and a line break.

// PrintStatus writes the leader, the queue and the nodes.
func PrintStatus(out io.Writer, d Details, asJSON bool) error {
	if asJSON {
		return printJSON(out, d)
	}
	leader := orNone(d.LeaderID)
	if d.LeaderID != "" {
		leader = fmt.Sprintf("%s (token %d, %s%s%s)", d.LeaderID, d.Token, d.Mode, outsideMark(d.View), d.leaderSilence())
	}
	if _, err := fmt.Fprintf(out, "leader    %s\nqueue     %s\nnodes     %d\nrevision  %d\n",
		leader, orNone(strings.Join(d.Queue, ", ")), d.ClusterSize, d.Revision); err != nil {
		return err
	}
	if l := d.Lease; l != nil {
		if _, err := fmt.Fprintf(out, "lease     %s\n", describeLease(*l)); err != nil {
			return err
		}
	}
	if d.FormatBy != "" && d.releasesDiffer() {
		if _, err := fmt.Fprintf(out, "format    %d (decided by %s, which runs the oldest release)\n", d.Format,
			d.FormatBy); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return PrintNodes(out, d, false)
}

// describeLease describes the last term.
func describeLease(l pgnode.Lease) string {
	at := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
	s := fmt.Sprintf("%s since %s, renewed %s", quoteIfUnclear(l.Leader), at(l.Acquired), at(l.Renewed))
	if l.Ended != nil {
		return s + ", ended " + at(*l.Ended)
	}
	return s + ", until " + at(l.Expires)
}

// PrintLeader writes the leader's address, or fails with ErrNoNodes or leaderelection.ErrNoLeader.
func PrintLeader(out io.Writer, d Details, asJSON bool) error {
	switch {
	case d.LeaderID == "" && d.ClusterSize == 0:
		return noNodesError(d.where)
	case d.LeaderID == "":
		return leaderelection.ErrNoLeader
	}
	if asJSON {
		return printJSON(out, d.Leader())
	}
	_, err := fmt.Fprintln(out, d.LeaderID)
	return err
}

// PrintNodes writes a table of the registered nodes, or that there is none.
func PrintNodes(out io.Writer, d Details, asJSON bool) error {
	if asJSON {
		return printJSON(out, newList(d.Members))
	}
	if len(d.Members) == 0 {
		_, err := fmt.Fprintln(out, noNodesError(d.where))
		return err
	}
	w := &tableWriter{out: out}
	w.writeRow("ADDRESS", "STATE", "PLACE", "HOST", "HTTP", "VERSION", "NOTES")
	differ := d.releasesDiffer()
	for _, n := range d.Members {
		w.writeRow(n.Address, n.State, numberOrDash(n.Place), orDash(n.Hostname), orDash(n.HTTPAddress), orDash(n.Version),
			n.notes(differ))
	}
	return w.flush()
}

// notes returns the node's notes, with its release if release is set.
func (n Node) notes(release bool) string {
	var notes []string
	if release {
		notes = append(notes, n.release())
	}
	if n.Observer {
		notes = append(notes, "observer")
	}
	if n.ElectionOnly {
		notes = append(notes, "election only")
	}
	if n.Gone {
		notes = append(notes, "its session has ended")
	}
	switch {
	case n.Stopping:
		notes = append(notes, "stopping")
	case n.Draining:
		notes = append(notes, "draining")
	}
	if n.SilentTo > 0 {
		notes = append(notes, notAnswering(n))
	}
	if n.ElectionFailed {
		notes = append(notes, "election failed: "+strings.ReplaceAll(n.Reason, "\n", ": "))
	}
	return orDash(strings.Join(notes, ", "))
}

// notAnswering describes how long a silent node has not answered, and how many nodes report that.
func notAnswering(n Node) string {
	by := fmt.Sprintf("%d nodes", n.SilentTo)
	if n.SilentTo == 1 {
		by = "1 node"
	}
	return fmt.Sprintf("not answering for %d s, seen by %s", n.SilentSeconds, by)
}

// leaderSilence does the same for the leader, and returns "" if the leader answers.
func (d Details) leaderSilence() string {
	for _, n := range d.Members {
		if n.Address == d.LeaderID && n.SilentTo > 0 {
			return ", " + notAnswering(n)
		}
	}
	return ""
}

// timedView is a View and the time at which it was seen.
type timedView struct {
	Time time.Time `json:"time"`
	View
}

// PrintChange writes one line about the cluster at the given time.
func PrintChange(out io.Writer, at time.Time, v View, asJSON bool) error {
	if asJSON {
		return printJSON(out, timedView{Time: at.UTC(), View: v})
	}
	stale := ""
	if v.Stale {
		stale = fmt.Sprintf(" (etcd does not answer; as of revision %d)", v.Revision)
	}
	if v.LeaderSilentSeconds > 0 {
		stale += fmt.Sprintf(" (the leader has not answered for %d s)", v.LeaderSilentSeconds)
	}
	_, err := fmt.Fprintf(out, "%s leader=%s token=%d mode=%s%s queue=%s nodes=%s%s\n", at.Format("15:04:05.000"),
		orNone(v.LeaderID),
		v.Token, v.Mode, outsideMark(v), orNone(strings.Join(v.Queue, ",")), orNone(strings.Join(v.Nodes, ",")), stale)
	return err
}

// PrintOutcome writes the leader after a request.
func PrintOutcome(out io.Writer, o Outcome, asJSON bool) error {
	if asJSON {
		return printJSON(out, o)
	}
	var err error
	switch {
	case o.Moved:
		_, err = fmt.Fprintf(out, "%s leads now (token %d), was %s (token %d)\n",
			o.LeaderID, o.Token, o.PreviousLeaderID, o.PreviousToken)
	case o.Token == o.PreviousToken:
		_, err = fmt.Fprintf(out, "%s leads already (token %d)\n", o.LeaderID, o.Token)
	default:
		_, err = fmt.Fprintf(out, "%s leads again (token %d), was token %d: no other candidate was queued\n", o.LeaderID,
			o.Token, o.PreviousToken)
	}
	return err
}

func printJSON(out io.Writer, v any) error { return json.NewEncoder(out).Encode(v) }

// outsideMark marks a leader that is not a Goverse node.
func outsideMark(v View) string {
	if v.LeaderID == "" || v.Member {
		return ""
	}
	return ", not a Goverse node"
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func numberOrDash(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
