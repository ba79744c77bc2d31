package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/objects/state"
	"github.com/goverse/goverse/cluster/objects/state/postgres"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/probepb"
)

type aRef struct{}

func (aRef) Service() string { return "test.Probe" }
func (aRef) Key() string     { return "a" }
func (aRef) Epoch() int64    { return 1 }

var ofReference = regexp.MustCompile(`\(reference ([A-Z2-7]{8}) in the log of the object's node\)`)

// Callers get the code, one line and a reference. The log has the rest, once for each kind of error. A method's
// own errors reach its callers unchanged.
func TestCallersDoNotSeeADatabasesErrors(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://secretuser:secretword@127.0.0.1:1/secretbase?sslmode=disable")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	store, err := postgres.New(postgres.Config{DB: pool})
	require.NoError(t, err)
	_, away := state.Load(t.Context(), store, aRef{}, &wrapperspb.Int64Value{})
	require.ErrorContains(t, away, "secretuser", "what is to be concealed")
	refused := &pgconn.PgError{Severity: "ERROR", Code: "23505", Message: "duplicate key in table secrets"}
	_, unreachable := pgconn.Connect(t.Context(), "postgres://secretuser@127.0.0.1:1,127.0.0.1:2/secretbase")
	require.Error(t, unreachable)
	// A pool of the method's own. Its driver puts all of that into every error.
	own, err := pgconn.ParseConfig("postgres://secretuser:secretword@127.0.0.1:1/secretbase?sslmode=disable")
	require.NoError(t, err)
	own.DialFunc = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way there") }
	_, noWay := pgconn.ConnectConfig(t.Context(), own)
	require.ErrorContains(t, noWay, "secretuser")
	own.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, slow := pgconn.ConnectConfig(short, own)
	require.ErrorContains(t, slow, "secretuser")
	_, misread := pgconn.ParseConfig("postgres://secretuser@127.0.0.1:secretport/secretbase")
	require.ErrorContains(t, misread, "secretuser")

	var log logtest.Buffer
	s := newSite(t, func(c *Config) { c.Logger = log.Logger() })
	for i, test := range []struct {
		err    error
		code   codes.Code
		hidden bool
		text   string // the text that callers see
	}{
		{away, codes.Unavailable, true, state.ErrUnavailable.Error()},
		{fmt.Errorf("cart: %w", away), codes.Unavailable, true, state.ErrUnavailable.Error()},
		{errors.Join(errors.New("cart"), away), codes.Unavailable, true, state.ErrUnavailable.Error()},
		{fmt.Errorf("secret version 3: %w", state.ErrConflict), codes.Aborted, true, state.ErrConflict.Error()},
		{fmt.Errorf("pay: %w", refused), codes.Unknown, true, "a database reported an error"},
		{unreachable, codes.Unknown, true, "what it needs could not be reached"},
		{noWay, codes.Unknown, true, "what it needs could not be reached"},
		{errors.Join(errors.New("pay"), fmt.Errorf("book: %w", noWay)), codes.Unknown, true, "could not be reached"},
		{fmt.Errorf("pay: %w", slow), codes.DeadlineExceeded, true, "could not be reached"},
		{misread, codes.Unknown, true, "could not be reached"},
		{&url.Error{Op: "Get", URL: "http://127.0.0.1/?token=secret", Err: io.ErrUnexpectedEOF}, codes.Unknown, true,
			"could not be reached"},
		{fmt.Errorf("cart: %w", pgx.ErrNoRows), codes.Unknown, false, "cart: no rows in result set"},
		{state.ErrFenced, codes.Unavailable, false, state.ErrFenced.Error()},
		{errors.New("out of stock"), codes.Unknown, false, "out of stock"},
		{status.Error(codes.FailedPrecondition, "no secret"), codes.FailedPrecondition, false, "no secret"},
		{fmt.Errorf("cart 7: %w", status.Error(codes.NotFound, "empty")), codes.NotFound, false, "cart 7: "},
		{errors.Join(errors.New("one"), errors.New("two")), codes.Unknown, false, "one; two"},
		{context.DeadlineExceeded, codes.DeadlineExceeded, false, "deadline"},
	} {
		what := fmt.Sprint("fail ", i)
		s.world.SetAction(what, func(context.Context, *probepb.Probe, *probepb.DoRequest) (*probepb.DoResponse, error) {
			return nil, test.err
		})
		for range 3 {
			err := s.do(s.ctx(), "a", what)
			require.Equal(t, test.code, status.Code(err), "%v", test.err)
			message := status.Convert(err).Message()
			require.Contains(t, message, test.text)
			require.NotContains(t, message, "\n")
			ref := ofReference.FindStringSubmatch(message)
			require.Equal(t, test.hidden, ref != nil, message)
			if test.hidden {
				require.NotContains(t, message, "secret")
				require.NotContains(t, message, "127.0.0.1")
				require.NotEmpty(t, log.Line("calls fail", ref[1]))
			}
		}
	}
	require.Equal(t, 4, log.Count("calls fail"), "one for each code: %s", log.String())
	require.Equal(t, 4, strings.Count(log.String(), "\n"))
	require.NotEmpty(t, log.Line("secretuser", "Unavailable"))

	// The same holds for calls of an object that could not be activated.
	s.world.OnActivate = func(context.Context, *objects.Object) error { return fmt.Errorf("load: %w", away) }
	err = s.do(s.ctx(), "new", "say")
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.NotContains(t, err.Error(), "secret")
	require.Regexp(t, ofReference, err.Error())

	s.world.OnActivate = func(context.Context, *objects.Object) error { panic(noWay) }
	err = s.do(s.ctx(), "other", "say")
	require.Equal(t, codes.Internal, status.Code(err))
	require.ErrorContains(t, err, "the factory panicked")
	require.NotContains(t, err.Error(), "secret")
	require.NotEmpty(t, log.Line("the factory of an object panicked", "secretuser"))
}
