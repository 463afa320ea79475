// Command firebreak is what people run: drills and their reports, who asks
// which server, certificates, and a demo. Installed as kubectl-firebreak it is
// a kubectl plugin.
package main

import (
	"os"

	"firebreakdns.io/firebreak/build/firebreak/cmd"
)

func main() { os.Exit(cmd.Main(cmd.System())) }
