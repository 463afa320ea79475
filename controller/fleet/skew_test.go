package fleet

import "testing"

func TestSkew(t *testing.T) {
	for _, c := range []struct {
		ours, theirs string
		works        bool
	}{
		{"1.4.0", "1.4.9", true}, {"1.4.0", "1.3.0", true}, {"1.4.0", "1.5.0-rc1", true},
		{"1.4.0", "1.2.9", false}, {"1.4.0", "1.6.0", false}, {"1.4.0", "2.4.0", false}, {"2.0.0", "1.9.0", false},
		{"0.0.0-dev", "1.9.0", true}, {"1.4.0", "0.0.0-dev", true}, {"1.4.0", "", true}, {"1.4.0", "nonsense", true},
		{"0.1.0", "0.2.0", true}, {"0.1.0", "0.3.0", false},
	} {
		if err := Skew(c.ours, c.theirs); (err == nil) != c.works {
			t.Errorf("%s with %s: %v", c.ours, c.theirs, err)
		}
	}
}
