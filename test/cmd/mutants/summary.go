package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/test/mutants"
)

// summary prints the status of each mutant, and counts them.
type summary struct {
	out io.Writer

	mu     sync.Mutex // guards what follows
	passed int
	failed int
	quick  int
	took   time.Duration
}

func (s *summary) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format+"\n", args...) }

func (s *summary) baseline(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed++
	s.printf("BROKEN    %v", err)
}

func (s *summary) checked(m *mutants.Mutant, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed++
		s.printf("BROKEN    %-44s %v", m.Name, err)
		return
	}
	s.passed++
}

func (s *summary) ran(m *mutants.Mutant, r mutants.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Status {
	case mutants.Caught:
		s.passed, s.took = s.passed+1, s.took+r.Took
		if r.Took < quickMax {
			s.quick++
		}
		s.printf("caught    %-44s %6.2f s  %s", m.Name, r.Took.Seconds(), r.By)
	case mutants.Survived:
		s.failed++
		s.printf("SURVIVED  %-44s %6.2f s  %s: %s", m.Name, r.Took.Seconds(), m.Test, m.Breaks)
	case mutants.Broken:
		s.failed++
		s.printf("BROKEN    %-44s %v", m.Name, r.Why)
	}
}

// end prints the totals.
func (s *summary) end(checked bool) error {
	if s.passed > 0 && !checked {
		s.printf("%d of %d caught by tests that take less than %s; %.1f s on average, without compiling",
			s.quick, s.passed, quickMax, s.took.Seconds()/float64(s.passed))
	}
	s.printf("%d passed, %d failed", s.passed, s.failed)
	if s.failed > 0 {
		return errFailed
	}
	return nil
}
