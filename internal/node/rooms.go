package node

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kinesin-io/kinesin/internal/room"
)

// roomMetrics are the series of rooms, by name.
type roomMetrics struct {
	used, most *prometheus.Desc
	refused    *prometheus.CounterVec

	rooms []*room.Room // all are added before the first call
}

func newRoomMetrics() *roomMetrics {
	labels := []string{"room"}
	return &roomMetrics{
		used: prometheus.NewDesc("kinesin_room_used", "How much callers have of what they share on this server, or of what the installation stores: bytes, calls or rows.", labels, nil),
		most: prometheus.NewDesc("kinesin_room_max", "Limit of kinesin_room_used.", labels, nil),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kinesin_room_refused_total", Help: "Calls refused because their caller had its share of what callers share, or because all was taken.",
		}, labels),
	}
}

// Describe implements prometheus.Collector.
func (m *roomMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- m.used
	to <- m.most
	m.refused.Describe(to)
}

// Collect implements prometheus.Collector.
func (m *roomMetrics) Collect(to chan<- prometheus.Metric) {
	for _, r := range m.rooms {
		to <- prometheus.MustNewConstMetric(m.used, prometheus.GaugeValue, float64(r.Used()), r.Name)
		to <- prometheus.MustNewConstMetric(m.most, prometheus.GaugeValue, float64(r.Most()), r.Name)
	}
	m.refused.Collect(to)
}

// WatchRooms shows rooms in the metrics, and logs whom they refuse. Call it before their first use.
func (m *Metrics) WatchRooms(log *slog.Logger, rooms ...*room.Room) {
	m.rooms.rooms = append(m.rooms.rooms, rooms...)
	for _, r := range rooms {
		refused := m.rooms.refused.WithLabelValues(r.Name)
		r.Refused = func(who string) {
			refused.Inc()
			log.WarnContext(context.Background(), "a call is refused because its caller has its share, or because all is taken",
				slog.String("room", r.Name), slog.String("caller", who), slog.Int64("max", r.Most()))
		}
	}
}
