//go:build !linux

package process

// Self is unknown.
func Self() (ID, error) { return ID{}, ErrUnknown }

// Watched is a process of which nothing is known.
type Watched struct{}

// Watch is ErrUnknown.
func Watch(ID) (*Watched, error) { return nil, ErrUnknown }

// HasEnded is false: that is not known.
func (*Watched) HasEnded() bool { return false }

// Close does nothing.
func (*Watched) Close() error { return nil }
