package endpoints

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
)

// snapshotVersion is that of the file's format.
const snapshotVersion = 1

// maxSnapshot is the longest file that is read, and maxPerSource what is kept.
const (
	maxSnapshot  = 1 << 20
	maxPerSource = 1024
)

// Snapshot keeps the last endpoints known in a file, for a start when their
// source cannot be asked.
type Snapshot struct {
	path string
	mu   sync.Mutex
	// sources are the last known endpoints, by the source's String.
	sources map[string][]Endpoint
}

type snapshotFile struct {
	Version int                        `json:"version"`
	Sources map[string][]snapshotEntry `json:"sources"`
}

type snapshotEntry struct {
	Address netip.AddrPort `json:"address"`
	Tier    int            `json:"tier"`
}

// OpenSnapshot reads a file. One that is damaged, or of another version, is set
// aside, and said so: the error is never a reason not to start.
func OpenSnapshot(path string) (*Snapshot, error) {
	s := &Snapshot{path: path, sources: make(map[string][]Endpoint)}
	err := s.read()
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		s.sources = make(map[string][]Endpoint)
		aside := path + ".damaged"
		if renamed := os.Rename(path, aside); renamed != nil {
			return s, fmt.Errorf("%s cannot be used (%w), and cannot be set aside: %v", path, err, renamed)
		}
		return s, fmt.Errorf("%s cannot be used and was set aside as %s: %w", path, aside, err)
	}
	return s, nil
}

func (s *Snapshot) read() error {
	info, err := os.Stat(s.path)
	if err != nil {
		return err
	}
	if info.Size() > maxSnapshot {
		return fmt.Errorf("it has %d bytes, more than the %d that are ever written", info.Size(), maxSnapshot)
	}
	text, err := os.ReadFile(s.path)
	if err != nil {
		return err
	}
	var file snapshotFile
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	if file.Version != snapshotVersion {
		return fmt.Errorf("it is of version %d, and this server knows %d", file.Version, snapshotVersion)
	}
	for name, entries := range file.Sources {
		for _, e := range entries {
			if !e.Address.IsValid() {
				return fmt.Errorf("%s has an address that is none", name)
			}
			s.sources[name] = append(s.sources[name], Endpoint{e.Address, e.Tier})
		}
	}
	return nil
}

// Last are the endpoints of a source that were known last.
func (s *Snapshot) Last(source string) []Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sources[source]
}

// Keep writes a source's endpoints: to a temporary file, synced and renamed.
func (s *Snapshot) Keep(source string, list []Endpoint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sources[source] = list[:min(len(list), maxPerSource)]
	file := snapshotFile{Version: snapshotVersion, Sources: make(map[string][]snapshotEntry)}
	for name, endpoints := range s.sources {
		for _, e := range endpoints {
			file.Sources[name] = append(file.Sources[name], snapshotEntry{e.Addr, e.Tier})
		}
	}
	text, err := json.Marshal(file)
	if err != nil {
		return err
	}
	if len(text) > maxSnapshot {
		return fmt.Errorf("%d bytes of endpoints are too many to keep", len(text))
	}
	f, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
