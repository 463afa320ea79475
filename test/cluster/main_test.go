package main

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// soakEnv names the environment variable that asks for the long tests.
const soakEnv = "FIREBREAK_SOAK"

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait most of the time: as many at once as there are, and not
	// as many as there are cores.
	if err := flag.Set("test.parallel", "32"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
