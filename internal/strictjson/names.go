package strictjson

import "slices"

// nameSet holds the names of one object. Most objects are small, so the first few are compared one
// by one and only a larger object pays for a map.
type nameSet struct {
	few  []string
	many map[string]struct{}
}

const fewNames = 16

// add reports whether name is new.
func (s *nameSet) add(name string) bool {
	if s.many != nil {
		_, known := s.many[name]
		s.many[name] = struct{}{}
		return !known
	}
	if slices.Contains(s.few, name) {
		return false
	}
	if len(s.few) < fewNames {
		s.few = append(s.few, name)
		return true
	}
	s.many = make(map[string]struct{}, 4*fewNames)
	for _, n := range s.few {
		s.many[n] = struct{}{}
	}
	s.many[name] = struct{}{}
	return true
}
