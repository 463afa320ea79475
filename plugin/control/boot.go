package control

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"
)

// started is when the process came up, near enough.
var started = time.Now()

var bootID = sync.OnceValue(func() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails: it ends the process instead
	return hex.EncodeToString(b[:])
})

// BootID names this process: random, new with every start. A call that changes
// something names the process that it means (protocol.BootHeader), so that what
// was meant for one before a restart is not done by the next.
func BootID() string { return bootID() }
