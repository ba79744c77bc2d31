package diagnosis

import (
	"fmt"
	"strings"

	"github.com/goverse/goverse/internal/etcd/access"
)

// diagnosePermissions checks that etcd allows the user everything that the program needs.
func diagnosePermissions(f Facts) []Finding {
	c := findings{check: CheckAccess}
	for _, a := range f.Access {
		if a.Failed != "" {
			c.add(Warning, "look at what etcd's log says, and run goversed doctor again", "it could not be tried whether etcd "+
				"allows %s on %v: %s", a.Right.Words(), a.Range, a.Failed)
			continue
		}
		denied := a.deniedRights()
		if denied == "" {
			continue
		}
		severity, what := Problem, a.Purpose
		if !a.Always {
			severity, what = Warning, a.Purpose+", if the program uses them"
		}
		c.add(severity, "as etcd's root: "+a.GrantCommand("ROLE")+"; goversed rbac prints all that is needed",
			"etcd denies the user %s%s on %v, which is needed for %s", f.quotedUser(), denied, a.Range, what)
	}
	switch {
	case f.KeyTest.Failed != "" && len(c.all) == 0:
		c.add(Problem, "look at etcd's log, and whether a proxy stands before it", "a key of goversed doctor's own could "+
			"not be written, watched and deleted: %s", f.KeyTest.Failed)
	case len(f.Access) == 0:
		return nil
	}
	if f.KeyTest.Tried {
		return c.orOKFinding("etcd allows %severything that is needed; a write took %s, and a watch showed it after %s",
			f.quotedUser(),
			formatDuration(f.KeyTest.Written), formatDuration(f.KeyTest.Seen))
	}
	return c.orOKFinding("etcd allows %severything that is needed", f.quotedUser())
}

// deniedRights names the rights that etcd refused, "" if none.
func (a Access) deniedRights() string {
	var out []string
	if a.NoRead {
		out = append(out, "READ")
	} else if a.NoWatch {
		out = append(out, "watches")
	}
	if len(a.NoWrite) > 0 {
		write := "WRITE"
		if len(a.NoWrite) < len(a.Parts) {
			write += " (" + formatParts(a.NoWrite) + ")"
		}
		out = append(out, write)
	}
	return strings.Join(out, " and ")
}

func formatParts(all []access.Part) string {
	var out []string
	for _, p := range all {
		out = append(out, fmt.Sprintf("%s for %s", p.Key, p.Purpose))
	}
	return joinNames(out)
}

// quotedUser returns the user's name in quotes with a space after it, or "".
func (f Facts) quotedUser() string {
	if f.User == "" {
		return ""
	}
	return fmt.Sprintf("%q ", f.User)
}
