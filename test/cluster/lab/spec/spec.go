// Package spec is how a machine of a cluster is described to the keeper that
// runs it, and what is said on the two pipes between them.
package spec

// Machine is one machine: namespaces of its own, a file tree of its own with the
// host's programs and libraries, and the programs that it runs.
type Machine struct {
	// Root is the host's folder that becomes the root of the file tree.
	Root string
	// Hostname is the machine's name.
	Hostname string
	// Cgroup is the control group that holds all of the machine's processes:
	// its own in the group System below it, those of pods beside that.
	Cgroup string
	// HostLink is a link on the host whose other end is in the machine. It
	// would go by itself, but only with the last connection of the machine's
	// dead processes, which the kernel closes in minutes.
	HostLink string
	// Overlays are writable views of folders of the host. One that the host
	// does not have is left out.
	Overlays []Overlay
	// Binds are put in place last, in their order.
	Binds []Bind
	// Tmpfs are folders that are empty at every start.
	Tmpfs []string
	// Sysctls are set in the machine's network namespace: names with slashes,
	// below /proc/sys. One that the kernel does not have is left out.
	Sysctls map[string]string
	// Programs can be started, and are restarted when they end.
	Programs []Program
}

// System is the name of the group that a machine's own processes are in.
const System = "system"

// Bind shows the host's From as To.
type Bind struct {
	From, To string
	// ReadOnly keeps the machine from writing to From.
	ReadOnly bool
}

// Overlay shows the host's folder Dir with the machine's changes, which go to
// Upper. Work is an empty folder beside it.
type Overlay struct{ Dir, Upper, Work string }

// Program is a program of a machine. File, Args and Log are as the machine
// sees them.
type Program struct {
	Name string
	File string
	Args []string
	Env  []string
	// Log takes what the program prints.
	Log string
}

// What is said to a keeper on its standard input, one per line. When that
// ends without Release, the machine dies: so does it when its owner is killed.
const (
	// Start, a space and a name start a program.
	Start = "start"
	// Stop, a space and a name kill a program, which stays down until Start.
	Stop = "stop"
	// Release lets the machine outlive whoever started it.
	Release = "release"
)

// Ready, a space and a number are what a keeper prints when the machine has
// its namespaces: the number is that of its first process, as the host sees it.
const Ready = "ready"
