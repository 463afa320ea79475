// Package version says which Firebreak this is: one version for all three
// programs, so that a server and its controller can compare theirs.
//
// The Makefile sets it from git. A build without that (go install, a stock
// CoreDNS with one of our plugins) takes the module's version from the build
// information.
package version

import (
	"runtime/debug"
	"strings"
	"sync"
)

// module is this module's path, as it stands in a build's list of dependencies.
const module = "firebreakdns.io/firebreak"

// unknown is the version of a build from a tree without a tag.
const unknown = "0.0.0-dev"

// version is set with -ldflags "-X firebreakdns.io/firebreak/plugin/pkg/protocol/version.version=v1.2.3".
var version string

// String is the semantic version, without a leading v.
var String = sync.OnceValue(func() string {
	v := version
	if v == "" {
		v = fromBuild()
	}
	return strings.TrimPrefix(v, "v")
})

func fromBuild() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	if info.Main.Path == module && strings.HasPrefix(info.Main.Version, "v") {
		return info.Main.Version
	}
	for _, dep := range info.Deps {
		if dep.Path == module && strings.HasPrefix(dep.Version, "v") {
			return dep.Version
		}
	}
	return unknown
}
