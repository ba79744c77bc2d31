package operator

import (
	"fmt"
	"io"
	"time"
)

// PrintObjects writes the number of objects per node and service. If a key was requested, it writes the key's
// shard and the state of its objects instead.
func PrintObjects(out io.Writer, o Objects, asJSON bool) error {
	switch {
	case asJSON:
		return printJSON(out, o)
	case o.Key != nil:
		return printObjectKey(out, o)
	}
	w := &tableWriter{out: out}
	answered, active := o.CountAnswered()
	w.writeLine("objects   %d active", active)
	w.writeLine("nodes     %s", formatAnswered(answered, len(o.Nodes)))
	w.writeLine("")
	w.writeRow("NODE", "SERVICE", "ACTIVE", "WAITING", "CALLS", "NOTES")
	for _, n := range o.Nodes {
		switch {
		case n.Error != "":
			w.writeRow(n.Address, "-", "-", "-", "-", quoteUnlessPlain(n.Error))
		case len(n.Services) == 0:
			w.writeRow(n.Address, "-", "-", "-", "-", "no service is registered")
		}
		for _, s := range n.Services {
			w.writeRow(n.Address, quoteIfUnclear(s.Service), fmt.Sprint(s.Active), fmt.Sprint(s.Waiting), fmt.Sprint(s.Calls),
				"-")
		}
	}
	return w.flush()
}

func printObjectKey(out io.Writer, o Objects) error {
	w, k := &tableWriter{out: out}, o.Key
	w.writeLine("key       %s", quoteIfUnclear(k.Key))
	w.writeLine("shard     %d", k.Shard)
	if k.Owner == "" {
		w.writeLine("owner     none")
	} else {
		w.writeLine("owner     %s (%s, epoch %d)", k.Owner, k.State, k.Epoch)
	}
	if k.WaitsFor != "" {
		w.writeLine("waits     for %s to release the shard", k.WaitsFor)
	}
	answered, _ := o.CountAnswered()
	w.writeLine("nodes     %s", formatAnswered(answered, len(o.Nodes)))
	w.writeLine("")
	if len(k.Objects) == 0 {
		w.writeLine("none of the nodes that answered has an object with this key")
	} else {
		w.writeRow("NODE", "SERVICE", "STATE", "EPOCH", "WAITING", "RUNNING", "AGE")
	}
	for _, a := range k.Objects {
		w.writeRow(a.Node, quoteIfUnclear(a.Service), a.State, fmt.Sprint(a.Epoch), fmt.Sprint(a.Waiting),
			fmt.Sprint(a.Running),
			formatAge(a.Age))
	}
	for i, n := range o.silentNodes() {
		if i == 0 {
			w.writeLine("")
			w.writeRow("NODE", "NOTES")
		}
		w.writeRow(n.Address, quoteUnlessPlain(n.Error))
	}
	return w.flush()
}

func formatAnswered(answered, all int) string {
	if answered == all {
		return fmt.Sprint(all)
	}
	return fmt.Sprintf("%d, of which %d did not answer", all, all-answered)
}

// formatAge formats a time, to the second, or to the millisecond if it is below a second.
func formatAge(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
