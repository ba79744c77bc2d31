package connect

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// The errors to test for with errors.Is. Package cluster exports them under its own names.
var (
	// ErrUnreachable is returned if etcd does not answer.
	ErrUnreachable = errors.New("etcd cannot be reached")
	// ErrNotEtcd is returned if another server answers at etcd's address.
	ErrNotEtcd = errors.New("no etcd")
	// ErrDenied is returned if etcd refuses the user.
	ErrDenied = errors.New("etcd refused the user")
)

// cause is the reason why etcd does not do as asked.
type cause int

const (
	unknownCause cause = iota // only the error of etcd's client is known
	refusedConnection
	unknownName
	silentServer   // it accepts connections but never answers
	speaksTLS      // this side does not speak TLS
	speaksPlain    // this side speaks TLS
	badCertificate // one side refuses the certificate of the other
	notEtcd
	noPassword // Credentials did not return a password
	userRefused
	userMissing
	permissionMissing
)

// problem is an error with its cause.
type problem struct {
	cause          cause
	address        string // one or several addresses, "" for a client within the process
	user           string // "" for none
	neededRights   string // the rights that the user needs
	err            error  // the error of the connection or of etcd, or nil
	names          SettingNames
	otherAddresses bool // the cause lasts, but another address may be etcd's
}

// newProblem returns a problem with this cause; address "" means all addresses.
func (c Config) newProblem(why cause, address string, err error) *problem {
	if address == "" {
		address = c.Address
	}
	return &problem{cause: why, address: address, user: c.Username, err: err, names: c.SettingNames}
}

// IsPermanent reports whether an error of this package persists however often the request is repeated: a server that
// is not etcd, a certificate that is refused, or a refusal of the user by etcd.
func IsPermanent(err error) bool {
	p, ok := errors.AsType[*problem](err)
	return ok && p.isPermanent()
}

func (p *problem) isPermanent() bool {
	// A token that etcd does not know is replaced at the next attempt.
	return p.cause >= badCertificate && !p.otherAddresses && !errors.Is(p.err, rpctypes.ErrInvalidAuthToken) &&
		!isOutOfDate(p.err)
}

// countsAtOnce reports whether a lasting cause counts when it is seen once. It does if etcd itself reported it. A
// proxy gives answers of its own while its etcd is away, and certificates and passwords may be replaced.
func (p *problem) countsAtOnce(c Config) bool {
	return p.cause > noPassword && (c.Credentials == nil || p.cause != userRefused)
}

// Is reports whether target is the sentinel error of the problem's cause.
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

// Unwrap returns the error of the connection or of etcd.
func (p *problem) Unwrap() error { return p.err }

// Error returns one line that names the remedy.
func (p *problem) Error() string {
	says, remedy := p.describe()
	if remedy == "" {
		return says
	}
	between := ": "
	if p.cause == userMissing {
		between = "; " // says already has a colon
	}
	return says + between + remedy + p.causeDetail()
}

// DescribeError splits an error of this package into a description and a remedy; ok is false for any other error. The
// remedy is "" if the error of Credentials has to name one.
func DescribeError(err error) (says, remedy string, ok bool) {
	p, ok := errors.AsType[*problem](err)
	if !ok {
		return "", "", false
	}
	says, remedy = p.describe()
	if remedy != "" {
		says += p.causeDetail()
	}
	return says, remedy, true
}

// describe returns the description and the remedy.
func (p *problem) describe() (says, remedy string) {
	switch p.cause {
	case notEtcd:
		return fmt.Sprintf("what answers at %s is %v", p.address, ErrNotEtcd), "set " + p.names.Address +
			" to etcd's client address, usually port 2379"
	case noPassword:
		return fmt.Sprintf("there is no password to log in to etcd with: %v", p.err), ""
	case userRefused, userMissing, permissionMissing:
		return p.describeDenial()
	}
	says = ErrUnreachable.Error() + " through the Client"
	if p.address != "" {
		says = ErrUnreachable.Error() + " at " + p.address
	}
	finding, remedy := p.describeFinding()
	if finding != "" {
		says += ": " + finding
	}
	return says, remedy
}

// describeFinding describes the observation at an etcd that does not answer, if there is any, and returns the remedy.
func (p *problem) describeFinding() (finding, remedy string) {
	w, runs := p.names, "check "+p.names.Address+" and that etcd runs there"
	switch p.cause {
	case refusedConnection:
		return "nothing listens there", runs
	case unknownName:
		return "its name is unknown", "check " + w.Address + " and the name service"
	case silentServer:
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

// describeDenial describes etcd's refusal of the user, and returns the remedy.
func (p *problem) describeDenial() (says, remedy string) {
	refused := ErrDenied.Error()
	if p.user != "" && p.cause != userMissing {
		refused += fmt.Sprintf(" %q", p.user)
	}
	needs := p.neededRights
	if needs == "" {
		needs = "the rights that this takes"
	}
	switch p.cause {
	case userMissing:
		return refused + ": none was given", fmt.Sprintf("set %s to those of a user with %s", p.names.User, needs)
	case permissionMissing:
		return refused, "grant it " + needs
	}
	return refused, "check " + p.names.User
}

// causeDetail returns the underlying error in parentheses if it adds to the description.
func (p *problem) causeDetail() string {
	if p.err == nil || p.cause == notEtcd || p.cause == silentServer || p.cause == speaksTLS || p.cause == speaksPlain {
		return ""
	}
	return fmt.Sprintf(" (%v)", p.err)
}
