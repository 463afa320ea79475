package clients

import (
	"testing"
	"unsafe"
)

// Two cores that count at once hand every cache line that they write to each
// other, which costs more than all the counting: what a query and its answer
// write has to stand in as few as can be.
func TestLayout(t *testing.T) {
	const line = 64
	if n := unsafe.Sizeof(shard{}); n%line != 0 {
		t.Errorf("a shard has %d bytes, and the next does not begin a line", n)
	}
	if n := unsafe.Offsetof(Table{}.shards); n%line != 0 {
		t.Errorf("the shards begin at byte %d", n)
	}
	if n := unsafe.Offsetof(shard{}.count) + unsafe.Offsetof(counters{}.latency) + 3*8; n > line {
		t.Errorf("answers within 0.2 ms count up to byte %d of a shard", n)
	}
	if n := unsafe.Offsetof(shard{}.count) + unsafe.Offsetof(counters{}.nxdomain); n < line {
		t.Errorf("denials count at byte %d, in the line of what every answer writes", n)
	}
	if n := unsafe.Offsetof(shard{}.heads); n < line {
		t.Errorf("what is only read stands at byte %d, in the line that is written", n)
	}
	if n := unsafe.Sizeof(seenClient{}); n%line != 0 {
		t.Errorf("an entry has %d bytes", n)
	}
	if n := unsafe.Offsetof(seenClient{}.daily) + 4; n > line {
		t.Errorf("an entry's hot part ends at byte %d", n)
	}
	if n := unsafe.Sizeof(retrySlot{}) * retryWays; n != line {
		t.Errorf("a bucket of questions has %d bytes", n)
	}
	table := NewTable(DefaultMax)
	if at := uintptr(unsafe.Pointer(&table.shards[0])); at%line != 0 { // #nosec G103 -- only its value
		t.Errorf("the first shard stands %d bytes into a line", at%line)
	}
	if at := uintptr(unsafe.Pointer(&table.entries[0])); at%line != 0 { // #nosec G103
		t.Errorf("the first entry stands %d bytes into a line", at%line)
	}
}
