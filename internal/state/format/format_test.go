package format

import (
	"encoding/json"
	"errors"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrorNamesBothVersionsAndTheRemedy(t *testing.T) {
	require.NoError(t, Range{1, 2}.Check("the map", 2, ""))
	err := Range{1, 2}.Check("the map", 3, "v0.4.0")
	require.ErrorIs(t, err, ErrFormat)
	require.EqualError(t, err, "the map has format 3 (of Goverse v0.4.0), and this process (Goverse "+Release()+
		") reads formats 1 to 2: use a release of Goverse that reads format 3, and delete nothing")
	wrong, ok := errors.AsType[*Error](err)
	require.True(t, ok)
	require.True(t, wrong.Newer())
	err = Range{3, 3}.Check("the cluster", 1, "")
	require.EqualError(t, err, "the cluster has format 1, and this process (Goverse "+Release()+") reads format 3: first "+
		"upgrade all nodes to a release of Goverse that reads format 3 too")
}

type record struct {
	Name   string `json:"name"`
	Count  int    `json:"count,omitempty"`
	Plain  string
	Hidden string `json:"-"`
	own    int
}

func TestRecordsStateTheirFormat(t *testing.T) {
	value, err := Encode(record{Name: "a"}, nil)
	require.NoError(t, err)
	require.Equal(t, `{"format":1,"name":"a","Plain":""}`, string(value))
	value, err = Encode(struct{}{}, nil)
	require.NoError(t, err)
	require.Equal(t, `{"format":1}`, string(value))
	_, err = Encode(7, nil)
	require.ErrorContains(t, err, "not encode as a JSON object")

	var r record
	require.NoError(t, DecodeKnown("it", []byte(`{"name":"a"}`), &r), "of a release that stated no format")
	require.Error(t, DecodeKnown("it", []byte(`[]`), &r))
	require.ErrorContains(t, DecodeKnown("it", []byte(`{"format":2,"name":["another","form"]}`), &r), "it has format 2")
	require.ErrorIs(t, DecodeKnown("it", []byte(`{"format":0}`), &r), ErrFormat)
	require.NoError(t, DecodeKnown("it", []byte(`{"format":null}`), &r))
	for _, stated := range []string{`"2"`, `{"of":2}`, `2.5`, `99999999999999999999`} {
		require.ErrorContains(t, DecodeKnown("it", []byte(`{"format":`+stated+`,"name":"a"}`), &r), "stated.format")
	}
}

func TestUnknownFieldsAreKept(t *testing.T) {
	const stored = `{"format":1,"name":"a","Plain":"","own":3,"Hidden":"x","z":{"a": [1]},"b":null}`
	r := record{own: 1}
	rest, err := Decode("it", []byte(stored), &r)
	require.NoError(t, err)
	require.Equal(t, Rest{"own": json.RawMessage("3"), "Hidden": json.RawMessage(`"x"`),
		"z": json.RawMessage(`{"a": [1]}`), "b": json.RawMessage("null")}, rest)
	r.Count = 2
	value, err := Encode(r, rest)
	require.NoError(t, err)
	require.Equal(t, `{"format":1,"name":"a","count":2,"Plain":"","Hidden":"x","b":null,"own":3,"z":{"a": [1]}}`,
		string(value))
	rest, err = Decode("it", []byte(`{"NAME":"a","plain":"b"}`), &r)
	require.NoError(t, err)
	require.Nil(t, rest, "package json ignores case, too")
}

func TestRestCache(t *testing.T) {
	var c RestCache
	require.Nil(t, c.Rest("a", 1))
	rest := Rest{"x": json.RawMessage("1")}
	c.Keep("a", 1, rest)
	require.Equal(t, rest, c.Rest("a", 1))
	require.Nil(t, c.Rest("a", 2))
	c.Keep("a", 2, nil)
	require.Nil(t, c.Rest("a", 1))
}

func TestReleaseOfTheProgram(t *testing.T) {
	main := debug.Module{Path: module, Version: "v1.2.3"}
	require.Equal(t, "v1.2.3", releaseOf(&debug.BuildInfo{Main: main}))
	user := debug.Module{Path: "example.org/service", Version: "v9.0.0"}
	require.Equal(t, "v1.2.3", releaseOf(&debug.BuildInfo{Main: user, Deps: []*debug.Module{&main}}))
	replaced := main
	replaced.Replace = &debug.Module{Path: "../goverse"}
	require.Equal(t, unknownRelease, releaseOf(&debug.BuildInfo{Main: user, Deps: []*debug.Module{&replaced}}))
	require.Equal(t, unknownRelease, releaseOf(&debug.BuildInfo{Main: user}))
}
