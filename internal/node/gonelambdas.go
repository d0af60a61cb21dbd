package node

import "sync"

// goneMax bounds how many deleted lambdas are remembered.
const goneMax = 10_000

// goneLambdas are lambdas that follow-ups name and that were deleted, so that the lambdas are read again once
// for each and not for each of its follow-ups. A reference is never used again.
type goneLambdas struct {
	mu   sync.Mutex // guards refs
	refs map[uint32]struct{}
}

func (g *goneLambdas) has(ref uint32) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, is := g.refs[ref]
	return is
}

func (g *goneLambdas) add(ref uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refs == nil || len(g.refs) >= goneMax {
		g.refs = map[uint32]struct{}{}
	}
	g.refs[ref] = struct{}{}
}
