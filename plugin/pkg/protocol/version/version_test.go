package version

import (
	"regexp"
	"testing"
)

func TestString(t *testing.T) {
	semver := regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)([-+][0-9A-Za-z.+-]+)?$`)
	if v := String(); !semver.MatchString(v) {
		t.Errorf("Version = %q, want a semantic version without v", v)
	}
}
