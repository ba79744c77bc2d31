package host

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
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

// concealDetails reports whether an error contains details that callers must not see: the user, address or statement
// of a database, or a network address. It returns the code and the text that callers get instead. A status that
// a method returns unwrapped, and plain errors of its own, are never concealed.
func concealDetails(err error) (code codes.Code, callers string, ok bool) {
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
	if revealsDetails(err) {
		return code, "what it needs could not be reached", true
	}
	return 0, "", false
}

// revealingPackages lists the packages with errors that contain users, databases, addresses and URLs. PostgreSQL's
// driver is recognised by the name of its package, pgconn, because nodes do not import it.
var revealingPackages = []string{"net", "net/url", "crypto/tls", "crypto/x509", "github.com/go-sql-driver/mysql"}

// revealsDetails reports whether err, or an error that it wraps, is from a package with errors that callers must not
// see.
func revealsDetails(err error) bool {
	for err != nil {
		of := reflect.TypeOf(err)
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if from := of.PkgPath(); slices.Contains(revealingPackages, from) || path.Base(from) == "pgconn" {
			return true
		}
		if several, ok := err.(interface{ Unwrap() []error }); ok {
			return slices.ContainsFunc(several.Unwrap(), revealsDetails)
		}
		err = errors.Unwrap(err)
	}
	return false
}

// failures reports the failures of objects, and limits the lines that clients can cause in the log.
type failures struct {
	logger hclog.Logger
	panics *rate.Limiter

	mu         sync.Mutex
	references map[errorKind]errorReference
}

// panicsPerSecond limits the log lines about panics; panicsAtOnce is the burst.
const panicsPerSecond, panicsAtOnce = 5, 20

func newFailures(logger hclog.Logger) *failures {
	return &failures{logger: logger, panics: rate.NewLimiter(panicsPerSecond, panicsAtOnce),
		references: map[errorKind]errorReference{}}
}

// errorKind and errorReference give the errors of one kind a common reference for a while, so an outage does not flood
// the log. Callers get the reference of an error that only the log shows.
type errorKind struct {
	method string // of a registered service
	code   codes.Code
}

type errorReference struct {
	id    string
	until time.Time
}

// referenceLifetime is the time for which errors of one kind share a reference.
const referenceLifetime = 10 * time.Second

// referenceOf returns the reference for a kind and reports whether it is new.
func (f *failures) referenceOf(k errorKind, now time.Time) (id string, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ref := f.references[k]; now.Before(ref.until) {
		return ref.id, false
	}
	id = rand.Text()[:8]
	f.references[k] = errorReference{id, now.Add(referenceLifetime)}
	return id, true
}

// errorForCaller returns the error that callers get. If they must not see err, it returns a reference instead, and
// logs err once for each new reference.
func (f *failures) errorForCaller(method, key string, err error) error {
	code, callers, ok := concealDetails(err)
	if !ok {
		return err
	}
	id, fresh := f.referenceOf(errorKind{method, code}, time.Now())
	if fresh {
		f.logger.Warn("calls fail; callers get the code and the reference", "method", method, "key", loggedKey(key),
			"code", code.String(), "reference", id, "error", logtext.OneLine(err))
	}
	return status.Error(code, fmt.Sprintf("%s (reference %s in the log of the object's node)", callers, id))
}

// reportPanic counts the panic p of an object's code, or that the code has left its goroutine, and logs it.
func (f *failures) reportPanic(o *object, message string, p any, more ...any) {
	o.service.metrics.panics.Add(1)
	if f.panics.Allow() { // because a client can repeat a call that panics; the metrics count all
		f.logger.Error(message, append([]any{"service", o.service.name, "key", loggedKey(o.key), "panic", p,
			"stack", string(debug.Stack())}, more...)...)
	}
}

// warnEvery is the least time between log lines about failed activations of one service.
const warnEvery = time.Second

// warnActivation logs a failed activation, with the number of failures since the last such line.
func (f *failures) warnActivation(o *object, err error) {
	m := &o.service.metrics
	m.unwarnedFailures.Add(1)
	now, last := time.Now().UnixNano(), m.lastWarning.Load()
	if now-last < int64(warnEvery) || !m.lastWarning.CompareAndSwap(last, now) {
		return
	}
	f.logger.Warn("could not activate an object; the next call of it tries again", "service", o.service.name,
		"key", loggedKey(o.key), "error", logtext.OneLine(err), "failures", m.unwarnedFailures.Swap(0))
}
