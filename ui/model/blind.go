package model

import (
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

// needed are the topics without which nobody can say that nothing waits.
var needed = []string{wire.TopicService, wire.TopicMissions, wire.TopicApprovals}

// Failed takes that a topic can't be had, as when the service takes the program
// for a worker. What came of it before stays true until more comes.
func (s *State) Failed(topic, why string) {
	if s.blind == nil {
		s.blind = map[string]string{}
	}
	s.blind[topic] = oneLine(why)
}

// unseen reports whether a topic that is needed failed, and why.
func (s *State) unseen() (why string, blind bool) {
	for _, topic := range needed {
		if why, failed := s.blind[topic]; failed && !s.known[topic] {
			return why, true
		}
	}
	return "", false
}

// sees reports whether it is known what waits for the person.
func (s *State) sees() bool { return s.known[wire.TopicMissions] && s.known[wire.TopicApprovals] }

// Unheard says why no answer would reach the service now, "" when one would.
func (s *State) Unheard() string {
	switch link, _ := s.Link(); link {
	case Running:
		return ""
	case NoService:
		return say.T("The service is not running")
	case Mismatch:
		return say.T("The service is another version")
	case Updating:
		return say.T("The service is being updated")
	case Blind:
		return say.T("The service tells this program nothing")
	}
	return say.T("The service does not answer just now")
}
