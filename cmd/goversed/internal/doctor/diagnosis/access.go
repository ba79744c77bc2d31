package diagnosis

import (
	"fmt"
	"strings"

	"github.com/goverse/goverse/internal/etcd/access"
)

// permissions checks that etcd allows the user everything that the program needs.
func permissions(f Facts) []Finding {
	c := findings{check: CheckAccess}
	for _, a := range f.Access {
		if a.Failed != "" {
			c.add(Warning, "look at what etcd's log says, and run goversed doctor again", "it could not be tried whether etcd "+
				"allows %s on %v: %s", a.Right.Words(), a.Range, a.Failed)
			continue
		}
		denied := a.denied()
		if denied == "" {
			continue
		}
		severity, what := Problem, a.For
		if !a.Always {
			severity, what = Warning, a.For+", if the program uses them"
		}
		c.add(severity, "as etcd's root: "+a.Grant("ROLE")+"; goversed rbac prints all that is needed",
			"etcd denies the user %s%s on %v, which is needed for %s", f.user(), denied, a.Range, what)
	}
	switch {
	case f.Round.Failed != "" && len(c.all) == 0:
		c.add(Problem, "look at etcd's log, and whether a proxy stands before it", "a key of goversed doctor's own could "+
			"not be written, watched and deleted: %s", f.Round.Failed)
	case len(f.Access) == 0:
		return nil
	}
	if f.Round.Tried {
		return c.orOK("etcd allows %severything that is needed; a write took %s, and a watch showed it after %s", f.user(),
			short(f.Round.Written), short(f.Round.Seen))
	}
	return c.orOK("etcd allows %severything that is needed", f.user())
}

// denied names the rights that etcd refused, "" if none.
func (a Access) denied() string {
	var out []string
	if a.NoRead {
		out = append(out, "READ")
	} else if a.NoWatch {
		out = append(out, "watches")
	}
	if len(a.NoWrite) > 0 {
		write := "WRITE"
		if len(a.NoWrite) < len(a.Parts) {
			write += " (" + parts(a.NoWrite) + ")"
		}
		out = append(out, write)
	}
	return strings.Join(out, " and ")
}

func parts(all []access.Part) string {
	var out []string
	for _, p := range all {
		out = append(out, fmt.Sprintf("%s for %s", p.Key, p.For))
	}
	return listed(out)
}

// user returns the user's name in quotes with a space after it, or "".
func (f Facts) user() string {
	if f.User == "" {
		return ""
	}
	return fmt.Sprintf("%q ", f.User)
}
