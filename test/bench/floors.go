package main

import (
	"fmt"

	"firebreakdns.io/firebreak/test/bench/program"
)

// The floors answer without knowing anything.
const (
	cFloor  = "floor-c"
	goFloor = "floor-go"
)

var floors = []server{
	{
		name: cFloor, title: "floor: echo in C", kind: floorKind,
		processes: func(p *place) ([]program.Spec, error) {
			return []program.Spec{{Args: []string{p.tools.echo, fmt.Sprint(p.port), fmt.Sprint(p.workers)}}}, nil
		},
	},
	{
		name: goFloor, title: "floor: echo in Go", kind: floorKind,
		processes: func(p *place) ([]program.Spec, error) {
			return []program.Spec{{
				Args: []string{p.tools.self, fmt.Sprint(p.port), fmt.Sprint(p.workers)},
				Env:  []string{roleEnv("echo"), fmt.Sprintf("GOMAXPROCS=%d", p.workers)},
			}}, nil
		},
	},
}
