package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// pagesWithin bounds the opening of all pages.
const pagesWithin = patienceBase

// pages are open first pages of the console, as browsers hold them open.
type pages struct {
	cancel context.CancelFunc
	all    sync.WaitGroup
	events atomic.Int64
	lost   atomic.Int64 // that ended by themselves
}

// openPages opens the pages, and returns when each has got its first state.
func (r *run) openPages(ctx context.Context) (*pages, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &pages{cancel: cancel}
	opened := make(chan error, 2*r.Pages) // a page that was open may still end
	for range r.Pages {
		p.all.Go(func() {
			once := sync.OnceFunc(func() { opened <- nil })
			err := p.watch(ctx, r.Server, once)
			if ctx.Err() == nil {
				p.lost.Add(1)
				opened <- errors.Join(err, errors.New("a page of the console ended"))
			}
		})
	}
	limit, stop := context.WithTimeout(ctx, pagesWithin)
	defer stop()
	for range r.Pages {
		select {
		case err := <-opened:
			if err != nil {
				p.close()
				return nil, err
			}
		case <-limit.Done():
			p.close()
			return nil, fmt.Errorf("%d pages of the console did not open in %v", r.Pages, pagesWithin)
		}
	}
	return p, nil
}

// watch reads what the server streams to a page.
func (p *pages) watch(ctx context.Context, server *Server, first func()) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.url("/ui/?part=live"), http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "text/event-stream")
	response, err := server.Direct.Streams.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the console answers %s", response.Status)
	}
	lines := bufio.NewReader(response.Body)
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // a long line of markup
		case err != nil:
			return err
		case strings.HasPrefix(string(line), "event: live"):
			p.events.Add(1)
			first()
		}
	}
}

func (p *pages) close() {
	p.cancel()
	p.all.Wait()
}
