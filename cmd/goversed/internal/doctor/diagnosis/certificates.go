package diagnosis

import (
	"fmt"
	"time"
)

// soon is the time before its end at which a certificate should have been renewed. For a short-lived
// certificate, a third of its lifetime counts instead.
const soon = 14 * 24 * time.Hour

// certificates checks that no certificate has expired, or will expire soon.
func certificates(f Facts) []Finding {
	c := findings{check: CheckCerts}
	var first Certificate
	for _, one := range f.Certificates {
		if first.Of == "" || one.NotAfter.Before(first.NotAfter) {
			first = one
		}
		left := one.NotAfter.Sub(f.Now)
		switch {
		case left <= 0:
			c.add(Problem, "issue a new one and write it into its file, which is read again at once",
				"the certificate of %s expired %s ago", one.Of, days(-left))
		case f.Now.Before(one.NotBefore):
			c.add(Problem, "set this machine's clock, or wait", "the certificate of %s is not valid yet", one.Of)
		case left < min(soon, one.NotAfter.Sub(one.NotBefore)/3):
			c.add(Warning, "issue a new one and write it into its file, which is read again at once",
				"the certificate of %s expires in %s", one.Of, days(left))
		}
	}
	if len(f.Certificates) == 0 {
		return nil
	}
	return c.orOK("%s seen; the first to expire is that of %s, in %s", count(len(f.Certificates), "certificate"), first.Of,
		days(first.NotAfter.Sub(f.Now)))
}

// days formats a time for planning renewals.
func days(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d days", int(d/(24*time.Hour)))
	}
	return d.Round(time.Minute).String()
}
