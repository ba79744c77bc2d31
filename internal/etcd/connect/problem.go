package connect

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// The errors to test for with errors.Is. cluster has them under names of its own.
var (
	// ErrUnreachable: etcd does not answer.
	ErrUnreachable = errors.New("etcd cannot be reached")
	// ErrNotEtcd: another server answers where etcd should.
	ErrNotEtcd = errors.New("no etcd")
	// ErrDenied: etcd refuses the user.
	ErrDenied = errors.New("etcd refused the user")
)

// cause is why etcd does not do what it is asked.
type cause int

const (
	unknown cause = iota // the error of etcd's client is all there is
	refusedConnection
	unknownName
	silent         // it takes connections, and no more
	speaksTLS      // this side does not
	speaksPlain    // this side speaks TLS
	badCertificate // one side refuses that of the other
	notEtcd
	noPassword // it cannot be had from Credentials
	userRefused
	userMissing
	permissionMissing
)

// problem is an error with its cause.
type problem struct {
	cause   cause
	address string // one or several, "" for a client within the process
	user    string // "" for none
	needs   string // the rights that are necessary
	err     error  // what the connection or etcd said, or nil
	words   Words
	passes  bool // although the cause does not: another address may be etcd's
}

// problem is one with this cause, at all addresses unless one is given.
func (c Config) problem(why cause, address string, err error) *problem {
	if address == "" {
		address = c.Address
	}
	return &problem{cause: why, address: address, user: c.Username, err: err, words: c.Words}
}

// Lasts reports whether an error of this package stays however often it is tried: another server than etcd,
// a certificate that is refused, and what etcd refuses a user.
func Lasts(err error) bool {
	p, ok := errors.AsType[*problem](err)
	return ok && p.lasts()
}

func (p *problem) lasts() bool {
	// A token that etcd does not know is replaced at the next attempt.
	return p.cause >= badCertificate && !p.passes && !errors.Is(p.err, rpctypes.ErrInvalidAuthToken) &&
		!isOutOfDate(p.err)
}

// certain reports whether one look is enough for what lasts. It is where etcd itself has answered; but a
// proxy has answers of its own while it knows no etcd, and certificates and passwords are replaced.
func (p *problem) certain(c Config) bool {
	return p.cause > noPassword && (c.Credentials == nil || p.cause != userRefused)
}

// Is has the problem match the sentinel of its cause.
func (p *problem) Is(target error) bool { return target == p.sentinel() }

func (p *problem) sentinel() error {
	switch {
	case p.cause == notEtcd:
		return ErrNotEtcd
	case p.cause > notEtcd:
		return ErrDenied
	}
	return ErrUnreachable
}

// Unwrap is what the connection or etcd said.
func (p *problem) Unwrap() error { return p.err }

// Error is one line that names the remedy.
func (p *problem) Error() string {
	says, remedy := p.parts()
	if remedy == "" {
		return says
	}
	between := ": "
	if p.cause == userMissing {
		between = "; " // says has a colon
	}
	return says + between + remedy + p.detail()
}

// Parts are an error of this package as what is so, with what was said about it, and what to do; false for any
// other error. There is no remedy where the error of Credentials has to name one.
func Parts(err error) (says, remedy string, ok bool) {
	p, ok := errors.AsType[*problem](err)
	if !ok {
		return "", "", false
	}
	says, remedy = p.parts()
	if remedy != "" {
		says += p.detail()
	}
	return says, remedy, true
}

// parts are what is so, and the remedy.
func (p *problem) parts() (says, remedy string) {
	switch p.cause {
	case notEtcd:
		return fmt.Sprintf("what answers at %s is %v", p.address, ErrNotEtcd), "set " + p.words.Address +
			" to etcd's client address, usually port 2379"
	case noPassword:
		return fmt.Sprintf("there is no password to log in to etcd with: %v", p.err), ""
	case userRefused, userMissing, permissionMissing:
		return p.denied()
	}
	says = ErrUnreachable.Error() + " through the Client"
	if p.address != "" {
		says = ErrUnreachable.Error() + " at " + p.address
	}
	finding, remedy := p.finding()
	if finding != "" {
		says += ": " + finding
	}
	return says, remedy
}

// finding is what was seen where etcd does not answer, if anything, and the remedy.
func (p *problem) finding() (finding, remedy string) {
	w, runs := p.words, "check "+p.words.Address+" and that etcd runs there"
	switch p.cause {
	case refusedConnection:
		return "nothing listens there", runs
	case unknownName:
		return "its name is unknown", "check " + w.Address + " and the name service"
	case silent:
		return "it takes connections and says nothing, so it is no etcd or one that stands still", runs
	case speaksTLS:
		return "it speaks TLS, and this side does not", "write https:// in " + w.Address + " or set " + w.Authority
	case speaksPlain:
		return "it does not speak TLS, and this side does", "write http:// in " + w.Address + " and leave out " +
			w.Certificates
	case badCertificate:
		return "a certificate is refused", "check " + w.Certificates
	}
	return "", runs
}

// denied is what etcd refuses the user, and the remedy.
func (p *problem) denied() (says, remedy string) {
	refused := ErrDenied.Error()
	if p.user != "" && p.cause != userMissing {
		refused += fmt.Sprintf(" %q", p.user)
	}
	needs := p.needs
	if needs == "" {
		needs = "the rights that this takes"
	}
	switch p.cause {
	case userMissing:
		return refused + ": none was given", fmt.Sprintf("set %s to those of a user with %s", p.words.User, needs)
	case permissionMissing:
		return refused, "grant it " + needs
	}
	return refused, "check " + p.words.User
}

// detail is what was said, in brackets, where that adds to the finding.
func (p *problem) detail() string {
	if p.err == nil || p.cause == notEtcd || p.cause == silent || p.cause == speaksTLS || p.cause == speaksPlain {
		return ""
	}
	return fmt.Sprintf(" (%v)", p.err)
}
