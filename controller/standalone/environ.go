package standalone

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"firebreakdns.io/firebreak/controller/fleet"
)

// envPrefix is what the names of all our variables begin with.
const envPrefix = "FIREBREAK_DRILL_"

// CheckEnviron says which variables of an environment (NAME=VALUE each) have a
// name like ours and are none: one that was misspelt would be ignored.
func CheckEnviron(environ []string) error {
	known := []string{EnvReading, EnvGap, EnvTail, EnvRetry, EnvReturn, EnvIgnoreHealth}
	var wrong []error
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, envPrefix) && !slices.Contains(known, name) {
			wrong = append(wrong, fmt.Errorf("%s: there is no such variable: %s", name, fleet.DidYouMean(name, known)))
		}
	}
	return errors.Join(wrong...)
}
