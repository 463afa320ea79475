package nodecache

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

const (
	ways = 7 // entries of a bucket: with its pointer to the next one, 96 bytes
	// fill is how many entries a bucket has on average when the table grows. Few
	// buckets then have more than ways.
	fill = 4
)

// table finds entries by their keys. Any number of goroutines may look while one
// changes it. An entry that a change moves may be missed for a moment: that is a
// miss like any other.
type table struct {
	seed    maphash.Seed
	mask    uint64
	buckets []bucket
}

type bucket struct {
	marks   [ways]atomic.Uint32 // of the entries' hashes
	entries [ways]atomic.Pointer[entry]
	more    atomic.Pointer[bucket] // when ways are not enough
}

// newTable has n buckets, a power of two.
func newTable(seed maphash.Seed, n int) *table {
	return &table{seed: seed, mask: uint64(n - 1), buckets: make([]bucket, n)} // #nosec G115 -- positive
}

// hash is one that who asks cannot foresee.
func (t *table) hash(k *key) uint64 {
	h := maphash.Bytes(t.seed, k.name)
	hi, lo := bits.Mul64(h^uint64(k.qtype)<<32^uint64(k.block)<<8^uint64(k.flags), 0x9e3779b97f4a7c15)
	return hi ^ lo
}

func mark(h uint64) uint32 { return uint32(h>>32) | 1 } // #nosec G115 -- its upper half

func (t *table) find(k *key, h uint64) *entry {
	want := mark(h)
	for b := &t.buckets[h&t.mask]; b != nil; b = b.more.Load() {
		for i := range b.marks {
			if b.marks[i].Load() != want {
				continue
			}
			if e := b.entries[i].Load(); e != nil && e.is(k) {
				return e
			}
		}
	}
	return nil
}

// insert adds e, which is not in the table.
func (t *table) insert(e *entry, h uint64) {
	b := &t.buckets[h&t.mask]
	for {
		for i := range b.marks {
			if b.entries[i].Load() == nil {
				b.entries[i].Store(e)
				b.marks[i].Store(mark(h))
				return
			}
		}
		next := b.more.Load()
		if next == nil {
			next = new(bucket)
			b.more.Store(next)
		}
		b = next
	}
}

// replace puts e in old's place, or takes old out if e is nil.
func (t *table) replace(old, e *entry, h uint64) {
	for b := &t.buckets[h&t.mask]; b != nil; b = b.more.Load() {
		for i := range b.marks {
			if b.entries[i].Load() != old {
				continue
			}
			if e == nil {
				b.marks[i].Store(0)
			}
			b.entries[i].Store(e)
			return
		}
	}
}

// each calls do for the entries of bucket i.
func (t *table) each(i int, do func(*entry)) {
	for b := &t.buckets[i]; b != nil; b = b.more.Load() {
		for j := range b.entries {
			if e := b.entries[j].Load(); e != nil {
				do(e)
			}
		}
	}
}
