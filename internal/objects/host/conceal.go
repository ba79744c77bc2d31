package host

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/logs/logtext"
)

// storeError is an error of a store of states. Its status holds all that a caller needs. Errors that wrap it
// may add texts of the database.
type storeError interface {
	error
	GRPCStatus() *status.Status
	StoreError()
}

// concealed reports whether an error contains details that callers must not see: the user, address or statement
// of a database, or a network address. It returns the code and the text that callers get instead. A status that
// a method returns unwrapped, and plain errors of its own, are never concealed.
func concealed(err error) (code codes.Code, callers string, ok bool) {
	if _, direct := err.(interface{ GRPCStatus() *status.Status }); direct || err == nil {
		return 0, "", false
	}
	if store, ok := errors.AsType[storeError](err); ok {
		return store.GRPCStatus().Code(), store.Error(), true
	}
	if s, ok := status.FromError(err); ok {
		code = s.Code()
	} else {
		code = status.FromContextError(err).Code()
	}
	if _, database := errors.AsType[interface {
		error
		SQLState() string
	}](err); database {
		return code, "a database reported an error", true
	}
	if reveals(err) {
		return code, "what it needs could not be reached", true
	}
	return 0, "", false
}

// revealing lists the packages with errors that contain users, databases, addresses and URLs. PostgreSQL's
// driver is recognised by the name of its package, pgconn, because nodes do not import it.
var revealing = []string{"net", "net/url", "crypto/tls", "crypto/x509", "github.com/go-sql-driver/mysql"}

// reveals reports whether err, or an error that it wraps, is from a package with errors that callers must not
// see.
func reveals(err error) bool {
	for err != nil {
		of := reflect.TypeOf(err)
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if from := of.PkgPath(); slices.Contains(revealing, from) || path.Base(from) == "pgconn" {
			return true
		}
		if several, ok := err.(interface{ Unwrap() []error }); ok {
			return slices.ContainsFunc(several.Unwrap(), reveals)
		}
		err = errors.Unwrap(err)
	}
	return false
}

// references holds the references under which the log has the errors that callers do not see. Errors of one
// kind share a reference for a while, so an outage does not flood the log.
type references struct {
	mu  sync.Mutex
	all map[kind]reference
}

type kind struct {
	method string // of a registered service
	code   codes.Code
}

type reference struct {
	id    string
	until time.Time
}

// referenceFor is the time for which errors of one kind share a reference.
const referenceFor = 10 * time.Second

// of returns the reference for a kind and reports whether it is new.
func (r *references) of(k kind, now time.Time) (id string, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ref := r.all[k]; now.Before(ref.until) {
		return ref.id, false
	}
	if r.all == nil {
		r.all = map[kind]reference{}
	}
	id = rand.Text()[:8]
	r.all[k] = reference{id, now.Add(referenceFor)}
	return id, true
}

// shown returns the error that callers get. If they must not see err, it returns a reference instead, and logs err
// once for each new reference.
func (h *Host) shown(method, key string, err error) error {
	code, callers, ok := concealed(err)
	if !ok {
		return err
	}
	id, fresh := h.references.of(kind{method, code}, time.Now())
	if fresh {
		h.cfg.Logger.Warn("calls fail; callers get the code and the reference", "method", method, "key", logged(key),
			"code", code.String(), "reference", id, "error", logtext.OneLine(err))
	}
	return status.Error(code, fmt.Sprintf("%s (reference %s in the log of the object's node)", callers, id))
}
