package format

import (
	"runtime/debug"
	"sync"
)

// module is the path of the module with the version that is the release.
const module = "github.com/goverse/goverse"

// Release returns the release of Goverse that this program was built with, as the Go tool recorded it: a version, a
// commit and its time, or "(devel)" if neither is known.
var Release = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknownRelease
	}
	return releaseOf(info)
})

const unknownRelease = "(devel)"

func releaseOf(info *debug.BuildInfo) string {
	found := info.Main
	for _, d := range info.Deps {
		if d.Path == module {
			found = *d
		}
	}
	if found.Replace != nil {
		found = *found.Replace
	} else if found.Path != module {
		return unknownRelease
	}
	if found.Version == "" {
		return unknownRelease
	}
	return found.Version
}
