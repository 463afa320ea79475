package cmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// flagProblem is what is wrong with a flag's value, and what to write: not what
// the parser of some Go type says of it.
func flagProblem(err error) string {
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return err.Error()
	}
	f, value := wrong.GetFlag(), wrong.GetValue()
	want := ""
	switch f.Value.Type() {
	case "duration":
		want = "write a number with its unit, such as 30s or 2m"
		if _, e := time.ParseDuration(value + "s"); e == nil {
			want = fmt.Sprintf("write it with its unit: %ss for seconds", value)
		}
	case "int":
		want = "write a whole number"
	case "float64":
		want = "write a number"
	case "bool":
		want = "write true or false, or the flag alone"
	case "stringSlice":
		want = "write names with commas between them, and no quotes within"
	default:
		return err.Error()
	}
	return fmt.Sprintf("--%s %q: %s", f.Name, value, want)
}
