package diagnosis

import (
	"fmt"
	"time"
)

// renewWithin is the time before its end at which a certificate should have been renewed. For a short-lived
// certificate, a third of its lifetime counts instead.
const renewWithin = 14 * 24 * time.Hour

// diagnoseCertificates checks that no certificate has expired, or will expire soon.
func diagnoseCertificates(f Facts) []Finding {
	c := findings{check: CheckCerts}
	var first Certificate
	for _, one := range f.Certificates {
		if first.Owner == "" || one.NotAfter.Before(first.NotAfter) {
			first = one
		}
		left := one.NotAfter.Sub(f.Now)
		switch {
		case left <= 0:
			c.add(Problem, "issue a new one and write it into its file, which is read again at once",
				"the certificate of %s expired %s ago", one.Owner, formatDays(-left))
		case f.Now.Before(one.NotBefore):
			c.add(Problem, "set this machine's clock, or wait", "the certificate of %s is not valid yet", one.Owner)
		case left < min(renewWithin, one.NotAfter.Sub(one.NotBefore)/3):
			c.add(Warning, "issue a new one and write it into its file, which is read again at once",
				"the certificate of %s expires in %s", one.Owner, formatDays(left))
		}
	}
	if len(f.Certificates) == 0 {
		return nil
	}
	return c.orOKFinding("%s seen; the first to expire is that of %s, in %s",
		formatCount(len(f.Certificates), "certificate"), first.Owner,
		formatDays(first.NotAfter.Sub(f.Now)))
}

// formatDays formats a time for planning renewals.
func formatDays(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d days", int(d/(24*time.Hour)))
	}
	return d.Round(time.Minute).String()
}
