package command

import "time"

// Zone returns the zone of the times that a command prints for people: the local one on a terminal,
// and UTC elsewhere, so that a file or another program gets the same text on every machine. Times
// in JSON are always in UTC.
func (s *Streams) Zone() *time.Location {
	if s.OutTerminal {
		return time.Local
	}
	return time.UTC
}

// Clock returns the time of day to the second, in the Zone. Outside a terminal it ends in Z.
func (s *Streams) Clock(at time.Time) string { return s.format(at, time.TimeOnly) }

// Time returns the date and the time of day to the second, in the Zone. Outside a terminal it ends
// in Z.
func (s *Streams) Time(at time.Time) string { return s.format(at, time.DateTime) }

func (s *Streams) format(at time.Time, layout string) string {
	text := at.In(s.Zone()).Format(layout)
	if !s.OutTerminal {
		text += "Z"
	}
	return text
}
