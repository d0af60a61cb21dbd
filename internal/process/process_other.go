//go:build !linux

package process

// Self returns ErrUnknown.
func Self() (ID, error) { return ID{}, ErrUnknown }

// Watched is never returned here.
type Watched struct{}

// Watch returns ErrUnknown.
func Watch(ID) (*Watched, error) { return nil, ErrUnknown }

// HasEnded returns false.
func (*Watched) HasEnded() bool { return false }

// Close does nothing.
func (*Watched) Close() error { return nil }
