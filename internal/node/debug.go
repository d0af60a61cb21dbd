package node

import (
	"net/http"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
)

// debugRoutes adds what `kinesin debug` reads and changes.
func (n *Node) debugRoutes(mux *http.ServeMux) {
	handle := func(pattern string, h http.HandlerFunc) { mux.Handle(pattern, n.needing(access.Debug, h)) }
	handle("GET /debug/config", func(w http.ResponseWriter, _ *http.Request) {
		if n.debug.Settings == nil {
			answer(w, struct{}{})
			return
		}
		answer(w, n.debug.Settings())
	})
	handle("GET /debug/partitions", func(w http.ResponseWriter, _ *http.Request) { answer(w, n.partitions()) })
	if n.debug.Log == nil {
		return
	}
	handle("GET /debug/log", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(n.debug.Log.Last())
	})
	handle("GET /debug/log-levels", func(w http.ResponseWriter, _ *http.Request) { answer(w, n.debug.Log.Levels()) })
	handle("PUT /debug/log-levels", n.setLogLevel)
}

// setLogLevel changes the level of a component until the process ends, and records who did it.
func (n *Node) setLogLevel(w http.ResponseWriter, r *http.Request) {
	component, level := r.URL.Query().Get("component"), r.URL.Query().Get("level")
	if err := n.debug.Log.SetLevel(component, level); err != nil {
		say(w, http.StatusBadRequest, err.Error())
		return
	}
	if c := access.From(r.Context()); n.audit != nil {
		n.audit.Note(r.Context(), audit.Record{
			Identity: c.Name, From: c.Host(), Action: "log.level", Target: component, Outcome: audit.OK, After: level, Count: 1,
		})
	}
	answer(w, n.debug.Log.Levels())
}

// partitionView is a partition as this process sees it.
type partitionView struct {
	Lambda      string  `json:"lambda"`
	Priority    string  `json:"priority"`
	Shard       uint16  `json:"shard"`
	FiredHere   bool    `json:"fired_here"`
	LateSeconds float64 `json:"late_seconds"`
}

func (n *Node) partitions() []partitionView {
	all := []partitionView{}
	if n.scheduler == nil {
		return all
	}
	overdue, now := n.scheduler.Overdue(), n.clock.Now()
	for _, l := range n.catalog.All() {
		for priority, name := range l.Priorities {
			for _, p := range partitionsOf(l, priority) {
				v := partitionView{Lambda: l.Name, Priority: name, Shard: p.Shard, FiredHere: n.scheduler.Fires(p)}
				if due, late := overdue[p]; late {
					v.LateSeconds = now.Sub(due).Seconds()
				}
				all = append(all, v)
			}
		}
	}
	return all
}
