package history

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/wait"
)

// recordedOutput is a recorder's output that the test reads.
type recordedOutput struct {
	mu     sync.Mutex
	text   bytes.Buffer
	pieces int
}

func (p *recordedOutput) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pieces++
	return p.text.Write(b)
}

func (p *recordedOutput) readHistory(t *testing.T) History {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, err := Read(bytes.NewReader(p.text.Bytes()))
	require.NoError(t, err)
	return h
}

// fakeNode is a node that answers as the test sets it, and reports when it was asked.
type fakeNode struct {
	mu      sync.Mutex
	leads   bool
	token   int64
	state   State
	changed wait.Signal
}

func (a *fakeNode) setAnswer(leads bool, token int64, s State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leads, a.token, a.state = leads, token, s
	a.changed.Send()
}

func (a *fakeNode) node(name string) Node {
	return Node{Name: name,
		Leads:     func() (bool, int64) { a.mu.Lock(); defer a.mu.Unlock(); return a.leads, a.token },
		State:     func() State { a.mu.Lock(); defer a.mu.Unlock(); return a.state },
		Subscribe: func() (<-chan struct{}, func()) { return a.changed, func() {} }}
}

func newFakeNode() *fakeNode { return &fakeNode{state: Candidate, changed: wait.NewSignal()} }

// awaitRun waits until the newest run has these values.
func awaitRun(t *testing.T, p *recordedOutput, leads bool, token int64, s State) Run {
	t.Helper()
	var last Run
	require.Eventually(t, func() bool {
		runs := p.readHistory(t).Runs
		if len(runs) == 0 {
			return false
		}
		last = runs[len(runs)-1]
		return last.Leads == leads && last.Token == token && last.State == s && last.Count > 30
	}, 20*time.Second, 5*time.Millisecond)
	return last
}

func TestRecorderWritesChangesAtOnceAndEqualSamplesTogether(t *testing.T) {
	p, a := &recordedOutput{}, newFakeNode()
	rec := NewRecorder(p, "test")
	begun := Now()
	rec.Add(a.node("a"))
	first := awaitRun(t, p, false, 0, Candidate)
	a.setAnswer(true, 7, Leader)
	awaitRun(t, p, true, 7, Leader)
	a.setAnswer(true, 7, Candidate)
	awaitRun(t, p, true, 7, Candidate)
	a.setAnswer(false, 7, Follower) // a token without leadership is ignored
	awaitRun(t, p, false, 0, Follower)
	require.NoError(t, rec.Stop())
	require.NoError(t, rec.Stop())
	ended := Now()
	rec.Add(a.node("b"))

	h := p.readHistory(t)
	require.Len(t, h.Processes, 1)
	require.Regexp(t, `^test/\d+$`, h.Processes[0].Name)
	runs := h.leadershipLives()[0]
	require.Len(t, h.leadershipLives(), 1, "nothing is sampled after Stop")
	require.Equal(t, NodeLife{Process: h.Processes[0].Name, Node: "a"}, first.NodeLife)
	at, samples := begun, 0
	for _, r := range runs {
		for _, i := range []Instant{r.First.Before, r.First.After, r.Last.After, ended} {
			require.LessOrEqual(t, at, i)
			at = min(i, r.Last.After)
		}
		samples += r.Count
	}
	terms := termsOf(runs)
	require.Len(t, terms, 1)
	require.Less(t, p.pieces, samples/2, "equal samples share a line")
}

// TestEndOfARunIsNotLost checks that the end of a run is written with the start of the next one.
func TestEndOfARunIsNotLost(t *testing.T) {
	a, p := newFakeNode(), &recordedOutput{}
	s := &sampler{node: a.node("a"), write: NewRecorder(p, "test").writeLines}
	for range 3 {
		s.sampleNode()
	}
	a.setAnswer(true, 7, Leader)
	s.sampleNode()
	no, yes := 0, 0
	for _, r := range p.readHistory(t).Runs { // more than two if the machine stood still
		if r.Leads {
			yes += r.Count
		} else {
			no += r.Count
		}
	}
	require.Equal(t, 3, no)
	require.Equal(t, 1, yes)
}

// TestSignalledChangeIsSampledAtOnce checks that a signal causes a sample, and that the recorder does not wait
// for one.
func TestSignalledChangeIsSampledAtOnce(t *testing.T) {
	asked, changed, stop, cancelled := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := &sampler{every: time.Hour, write: func(...recordLine) {}, stop: stop, node: Node{
		Leads:     func() (bool, int64) { asked <- struct{}{}; return false, 0 },
		Subscribe: func() (<-chan struct{}, func()) { return changed, func() { close(cancelled) } }}}
	var wg sync.WaitGroup
	wg.Go(s.run)
	<-asked
	changed <- struct{}{}
	<-asked
	close(stop)
	wg.Wait()
	<-cancelled
}

func TestMarks(t *testing.T) {
	p := &recordedOutput{}
	rec := NewRecorder(p, "test")
	begun := Now()
	end := rec.BeginFault("a", "cut off", "both ways")
	open := p.readHistory(t).Marks[0]
	require.Zero(t, open.To, "it is written as it begins")
	failed := errors.New("failed")
	require.ErrorIs(t, rec.Intervene("b", LeaseRevoked, func() error { return failed }), failed)
	end()
	rec.Mark(Mark{Node: "c", Name: RemovedAlive, From: 5, To: 6})
	require.NoError(t, rec.Stop())

	marks := p.readHistory(t).Marks
	require.Len(t, marks, 3)
	require.Equal(t, []string{"a", "b", "c"}, []string{marks[0].Node, marks[1].Node, marks[2].Node})
	require.Equal(t, "cut off", marks[0].Name)
	require.Equal(t, "both ways", marks[0].Text)
	require.LessOrEqual(t, begun, marks[0].From)
	require.LessOrEqual(t, marks[0].From, marks[1].From)
	require.LessOrEqual(t, marks[1].To, marks[0].To)
	require.Equal(t, []Instant{5, 6}, []Instant{marks[2].From, marks[2].To})
}

func TestNameUsedAgainIsAnotherLife(t *testing.T) {
	p := &recordedOutput{}
	rec := NewRecorder(p, "test")
	rec.Add(newFakeNode().node("a"))
	rec.Add(newFakeNode().node("a"))
	require.NoError(t, rec.Stop())
	require.Len(t, p.readHistory(t).leadershipLives(), 2)
}

// failingWriter fails writes after a number of them.
type failingWriter struct{ left int }

func (b *failingWriter) Write(p []byte) (int, error) {
	if b.left--; b.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestErrorOfWritingIsTold(t *testing.T) {
	rec := NewRecorder(&failingWriter{left: 1}, "test")
	rec.Add(newFakeNode().node("a"))
	require.ErrorIs(t, rec.Stop(), io.ErrShortWrite)
}

func TestReading(t *testing.T) {
	p := &recordedOutput{}
	rec := NewRecorder(p, "test")
	rec.BeginFault("a", "cut off", "")
	whole := p.text.String()
	for cut := range len(whole) {
		h, err := Read(strings.NewReader(whole[:cut]))
		require.NoError(t, err, "what a crash leaves can be read")
		require.Empty(t, h.Marks)
	}
	for _, bad := range []string{"{}\n", "hello\n", whole + "\n" + whole} {
		_, err := Read(strings.NewReader(bad))
		require.ErrorIs(t, err, ErrBadLine)
	}
	_, err := ReadFiles("/nonexistent")
	require.Error(t, err)
}

func TestLeadsIsAboutOneInstant(t *testing.T) {
	one, two := &namedTerm{name: "one"}, &namedTerm{name: "two"}
	for name, test := range map[string]struct {
		terms []leaderelection.Term // answers to Term; the last one is repeated
		yes   []bool                // answers to IsLeader
		want  bool
		asked int // calls of IsLeader
	}{
		"leads":                  {[]leaderelection.Term{one}, []bool{true}, true, 1},
		"does not":               {[]leaderelection.Term{nil}, []bool{false}, false, 1},
		"begins meanwhile":       {[]leaderelection.Term{nil, one}, []bool{true}, true, 2},
		"ends meanwhile":         {[]leaderelection.Term{one, nil}, []bool{true, false}, false, 2},
		"another term meanwhile": {[]leaderelection.Term{one, two}, []bool{true}, true, 2},
		"yes without a term":     {[]leaderelection.Term{nil}, []bool{true}, true, 10},
	} {
		next, asked := 0, 0
		yes, _ := leadsByTerm(func() bool {
			asked++
			return test.yes[min(asked, len(test.yes))-1]
		}, func() (leaderelection.Term, bool) {
			next++
			t := test.terms[min(next, len(test.terms))-1]
			return t, t != nil
		})
		require.Equal(t, test.want, yes, name)
		require.Equal(t, test.asked, asked, name)
	}
}

// namedTerm is a term that is only compared.
type namedTerm struct {
	leaderelection.Term
	name string
}

// Token implements leaderelection.Term.
func (*namedTerm) Token() int64 { return 1 }
