package suspicion

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts in testdata anew; look at the difference")

var settings = Settings{Confirmations: 3, GracePeriod: 100 * time.Millisecond, Rest: time.Second}

// String returns the phase's name in the transcript.
func (p Phase) String() string {
	return [...]string{"opening", "watching", "accusing", "waiting", "verifying", "removing", "over"}[p]
}

func events() map[string]Event {
	out := map[string]Event{}
	for e := Opened; e <= Unregistered; e++ {
		out[e.String()] = e
	}
	return out
}

// Each transcript shows a case: one line for each event, with its consequences.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			after := play(t, string(before))
			if *rewrite {
				require.NoError(t, os.WriteFile(path, []byte(after), 0o644))
				return
			}
			require.Equal(t, string(before), after)
		})
	}
}

// play runs the events of a transcript and writes their consequences.
func play(t *testing.T, transcript string) string {
	var out bytes.Buffer
	var c Case
	for line := range strings.SplitSeq(strings.TrimRight(transcript, "\n"), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			fmt.Fprintln(&out, line)
			c = Case{}
			continue
		}
		name := strings.TrimSpace(strings.SplitN(line, "→", 2)[0])
		e, ok := events()[name]
		require.True(t, ok, "no event %q", name)
		var a Action
		c, a = c.OnEvent(e, settings)
		fmt.Fprintf(&out, "%-17s → %-10s%s", e, c.Phase, a.Do)
		if a.After > 0 {
			fmt.Fprintf(&out, " after %v", a.After)
		}
		if a.Evidence != "" {
			fmt.Fprintf(&out, ": %s", a.Evidence)
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}

// In no sequence of events is a member accused without repeated evidence, or removed without a grace period
// after an acknowledged accusation.
func TestNothingWithoutEvidence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Case
		refusals, accused, waited := 0, false, false
		for range 60 {
			e := Event(rapid.IntRange(int(Opened), int(Unregistered)).Draw(t, "event"))
			before := c
			var a Action
			c, a = c.OnEvent(e, settings)
			if before.Phase == Opening {
				switch e {
				case Refused:
					refusals++
				case Opened, Silence:
					refusals = 0
				}
			}
			switch a.Do {
			case Accuse:
				require.True(t, before.Phase == Opening && (e == Other && before.Others > 0 || e == Refused &&
					refusals >= settings.Confirmations))
				refusals, accused, waited = 0, false, false
			case Wait:
				require.Equal(t, Accused, e)
				require.Equal(t, settings.GracePeriod, a.After)
				accused = true
			case Remove:
				require.True(t, accused && before.Phase == Verifying && (e == Refused || e == Other))
				waited = true
			case Open:
				require.LessOrEqual(t, a.After, max(maxOpenPause, maxRestFactor*settings.Rest))
			}
			if c.Phase == Removing {
				require.True(t, waited)
			}
			require.Equal(t, c.Phase <= Watching, c.CanDrop())
		}
	})
}
