package mtls

import (
	"crypto/x509"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/logtest"
)

// Content seen once may be half of a replacement. Lasting content is logged once.
func TestBrokenFilesAreLoggedOnce(t *testing.T) {
	var log logtest.Buffer
	var w contentLog
	look := func(seen, says string) {
		var err error
		if says != "" {
			err = errors.New(says)
		}
		w.report(seen, err, log.Logger())
	}
	look("half", "no such key")
	look("whole", "")
	look("half", "no such key")
	look("other half", "no such certificate")
	require.Empty(t, log.String())
	for range 10 {
		look("broken", "broken")
	}
	require.Equal(t, 1, log.Count("\n"), log.String())
	require.Contains(t, log.String(), "broken")
	look("worse", "worse")
	look("worse", "worse")
	require.Equal(t, 2, log.Count("\n"), log.String())
	look("whole", "")
	look("worse", "worse")
	look("worse", "worse")
	require.Equal(t, 3, log.Count("\n"), "it is news again: %s", log.String())
}

func TestTheEndOfACertificateIsLoggedOnce(t *testing.T) {
	var log logtest.Buffer
	var w contentLog
	begin := time.Unix(0, 0)
	leaf := func(serial int64) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: begin, NotAfter: begin.Add(100 * time.Hour)}
	}
	first, second := leaf(1), leaf(2)
	w.remindExpiry(first, begin.Add(89*time.Hour), log.Logger())
	require.Empty(t, log.String())
	for i := range 20 {
		w.remindExpiry(first, begin.Add(time.Duration(91+i)*time.Hour), log.Logger())
	}
	require.Equal(t, 1, log.Count("\n"), log.String())
	require.Contains(t, log.String(), "about to expire, then others refuse new connections: write a new one into its "+
		"files: serial=1 expires=1970-01-05T04:00:00Z")
	w.remindExpiry(second, begin.Add(89*time.Hour), log.Logger())
	w.remindExpiry(second, begin.Add(92*time.Hour), log.Logger())
	require.Equal(t, 2, log.Count("\n"), log.String())
}
