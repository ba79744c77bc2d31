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

// storeError is an error of a store of states. Its status says all that a caller needs; the errors that wrap it have
// what the database says beside it.
type storeError interface {
	error
	GRPCStatus() *status.Status
	StoreError()
}

// concealed reports whether an error has more in it than callers are to see: the user, address and statement of a
// database, or an address of the network. callers is what they see. A status that a method returns as it is, and
// plain errors of its own, are what it wants to say.
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

// revealing are the packages whose errors name users, databases, addresses and URLs. Those of PostgreSQL's driver end
// in pgconn: no node needs that driver, so its types are told by their package alone.
var revealing = []string{"net", "net/url", "crypto/tls", "crypto/x509", "github.com/go-sql-driver/mysql"}

// reveals reports whether an error, or one that it wraps, is of a package whose errors name what callers are not to
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

// references says under which reference the log has the text of errors that callers do not see. Errors of one kind
// share one for a while, so that an outage is no flood in the log.
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

// referenceFor is how long errors of one kind share a reference.
const referenceFor = 10 * time.Second

// of returns the reference, and whether it is new.
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

// shown is the error as callers get it: without what they are not to see, which is logged under a reference.
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
