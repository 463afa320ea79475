package fleet

import (
	"fmt"

	"golang.org/x/mod/semver"
)

// Skew says why a controller of one version will not work with a server of
// another, or nil. They are to be of one major version and one minor version
// apart at most. A build that has no version works with every one: it is a
// developer's.
func Skew(controller, server string) error {
	ours, theirs := "v"+controller, "v"+server
	if !semver.IsValid(ours) || !semver.IsValid(theirs) || unversioned(ours) || unversioned(theirs) {
		return nil
	}
	var a, b [2]int
	_, _ = fmt.Sscanf(semver.MajorMinor(ours), "v%d.%d", &a[0], &a[1])
	_, _ = fmt.Sscanf(semver.MajorMinor(theirs), "v%d.%d", &b[0], &b[1])
	apart := a[1] - b[1]
	if a[0] == b[0] && apart >= -1 && apart <= 1 {
		return nil
	}
	return fmt.Errorf("it is version %s, and this controller of version %s works with %d.%d to %d.%d: upgrade the older of the two first",
		server, controller, a[0], max(a[1]-1, 0), a[0], a[1]+1)
}

func unversioned(v string) bool { return semver.MajorMinor(v) == "v0.0" }
