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
		return printKey(out, o)
	}
	w := &table{out: out}
	answered, active := o.Answered()
	w.line("objects   %d active", active)
	w.line("nodes     %s", answers(answered, len(o.Nodes)))
	w.line("")
	w.row("NODE", "SERVICE", "ACTIVE", "WAITING", "CALLS", "NOTES")
	for _, n := range o.Nodes {
		switch {
		case n.Error != "":
			w.row(n.Address, "-", "-", "-", "-", said(n.Error))
		case len(n.Services) == 0:
			w.row(n.Address, "-", "-", "-", "-", "no service is registered")
		}
		for _, s := range n.Services {
			w.row(n.Address, shown(s.Service), fmt.Sprint(s.Active), fmt.Sprint(s.Waiting), fmt.Sprint(s.Calls), "-")
		}
	}
	return w.flush()
}

func printKey(out io.Writer, o Objects) error {
	w, k := &table{out: out}, o.Key
	w.line("key       %s", shown(k.Key))
	w.line("shard     %d", k.Shard)
	if k.Owner == "" {
		w.line("owner     none")
	} else {
		w.line("owner     %s (%s, epoch %d)", k.Owner, k.State, k.Epoch)
	}
	if k.WaitsFor != "" {
		w.line("waits     for %s to release the shard", k.WaitsFor)
	}
	answered, _ := o.Answered()
	w.line("nodes     %s", answers(answered, len(o.Nodes)))
	w.line("")
	if len(k.Objects) == 0 {
		w.line("none of the nodes that answered has an object with this key")
	} else {
		w.row("NODE", "SERVICE", "STATE", "EPOCH", "WAITING", "RUNNING", "AGE")
	}
	for _, a := range k.Objects {
		w.row(a.Node, shown(a.Service), a.State, fmt.Sprint(a.Epoch), fmt.Sprint(a.Waiting), fmt.Sprint(a.Running),
			age(a.Age))
	}
	for i, n := range o.silent() {
		if i == 0 {
			w.line("")
			w.row("NODE", "NOTES")
		}
		w.row(n.Address, said(n.Error))
	}
	return w.flush()
}

func answers(answered, all int) string {
	if answered == all {
		return fmt.Sprint(all)
	}
	return fmt.Sprintf("%d, of which %d did not answer", all, all-answered)
}

// age formats a time, to the second, or to the millisecond if it is below a second.
func age(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
