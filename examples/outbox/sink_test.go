//go:build unix

package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

func (s *testBed) sink(t *testing.T) {
	db, _ := s.database(t)
	server := httptest.NewServer(sink{db}.routes())
	defer server.Close()
	client := server.Client()
	put := func(event, token, body string) int {
		req, err := http.NewRequest(http.MethodPut, server.URL+"/events/"+event, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set(tokenHeader, token)
		answer, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	for _, c := range []struct {
		event, token, body string
		want               int
	}{
		{"1/1", "5", `{"a": 1}`, http.StatusCreated},
		{"1/1", "5", `{"a": 1}`, http.StatusOK},
		{"1/2", "6", `{"a": 2}`, http.StatusCreated},
		{"1/3", "5", `{"a": 3}`, http.StatusConflict}, // from an earlier leader
		{"1/1", "5", `{"a": 1}`, http.StatusConflict},
		{"1/1", "7", `{"a": 1}`, http.StatusOK}, // a repeated event with a larger token: the sender leads
		{"1/3", "6", `{"a": 3}`, http.StatusConflict},
		{"1/4", "7", `{`, http.StatusUnprocessableEntity},
		{"1/4", "7", `"` + strings.Repeat("x", maxBody) + `"`, http.StatusRequestEntityTooLarge},
		{"1/4", "0", `{}`, http.StatusBadRequest},
		{"1/4", "", `{}`, http.StatusBadRequest},
	} {
		require.Equal(t, c.want, put(c.event, c.token, c.body), c)
	}
	require.Equal(t, []string{"1/1", "1/2"}, column(t, db, "select event from received order by number"))
	answer, err := client.Get(server.URL)
	require.NoError(t, err)
	said, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.JSONEq(t, `{"received": 2, "repeated": 2, "refused": 3, "token": 7, "last": "1/2"}`, string(said))
}

// Only an answer that blames the message parks it, not one that reports a fault of the sink.
func TestVerdict(t *testing.T) {
	for code, want := range map[int]error{
		200: nil, 201: nil, 204: nil,
		400: processor.ErrPoison, 413: processor.ErrPoison, 422: processor.ErrPoison,
		401: processor.ErrUnavailable, 404: processor.ErrUnavailable, 409: processor.ErrUnavailable,
		429: processor.ErrUnavailable,
		301: processor.ErrUnavailable, 500: processor.ErrUnavailable, 503: processor.ErrUnavailable,
	} {
		require.ErrorIs(t, answerError(code, "why"), want, code)
	}
	away := sinkClient{url: "http://127.0.0.1:1", client: &http.Client{}}
	err := away.put(context.Background(), processor.Event[[]byte]{Position: "1/1"})
	require.ErrorIs(t, err, processor.ErrUnavailable)
}
