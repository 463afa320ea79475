package standalone

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// maxStateFile is the most bytes of a state file: a run with recordings of a
// whole fleet in it.
const maxStateFile = 1 << 30

// envelope is what every state file is: its format with its version, and its
// content with a digest, so that a file that was cut off or edited is known as
// such, whatever it says.
type envelope struct {
	Format  string          `json:"format"`
	SHA256  string          `json:"sha256"` // of content, as it stands in the file
	Content json.RawMessage `json:"content"`
}

// writeState writes a state file durably: what stood there before, or the
// whole of the new, survives anything.
func writeState(path, format string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	whole, err := json.Marshal(envelope{Format: format, SHA256: hex.EncodeToString(sum[:]), Content: data})
	if err != nil {
		return err
	}
	return writeDurably(path, append(whole, '\n'))
}

func writeDurably(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already, once renamed
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// damaged is why a state file cannot be used.
type damaged struct{ why string }

func (d *damaged) Error() string { return d.why }

// readState reads a state file; the error is *damaged where its content cannot
// be trusted.
func readState(path, format string, into any) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() > maxStateFile {
		return &damaged{fmt.Sprintf("it has %d bytes, more than any state file", info.Size())}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return parseState(data, format, into)
}

func parseState(data []byte, format string, into any) error {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return &damaged{fmt.Sprintf("it is cut off or no JSON (%v)", err)}
	}
	if e.Format != format {
		return &damaged{fmt.Sprintf("its format is %q, and this version reads %q: a newer version wrote it, or it is something else", e.Format, format)}
	}
	sum := sha256.Sum256(e.Content)
	if e.SHA256 != hex.EncodeToString(sum[:]) {
		return &damaged{"its content is not what was written: it was edited by hand, or the disk lost a part"}
	}
	if err := json.Unmarshal(e.Content, into); err != nil {
		return &damaged{fmt.Sprintf("its content is not understood (%v)", err)}
	}
	return nil
}

// setAside moves a file out of the way, for somebody to look at.
func setAside(path string, now time.Time) (string, error) {
	dir := filepath.Join(filepath.Dir(path), "aside")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	to := filepath.Join(dir, filepath.Base(path)+"."+now.UTC().Format("20060102-150405.000000"))
	if err := os.Rename(path, to); err != nil {
		return "", err
	}
	return to, errors.Join(syncDir(dir), syncDir(filepath.Dir(path)))
}

func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
