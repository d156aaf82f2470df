package server

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/internal/iam/review"
	"plasmacloud.io/plasmacloud/internal/iam/token"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

// passwordTimeout bounds the wait of a login for its turn.
const passwordTimeout = 10 * time.Second

func (s *Server) login(w http.ResponseWriter, r *http.Request) error {
	var request wire.LoginRequest
	if err := decode(r, &request); err != nil {
		return err
	}
	if err := s.Ready(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), passwordTimeout)
	defer cancel()
	granted, err := s.Sessions.Login(ctx, request, address(r))
	s.Metrics.loggedIn(err)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, granted)
}

func (s *Server) refresh(w http.ResponseWriter, r *http.Request) error {
	var request wire.RefreshRequest
	if err := decode(r, &request); err != nil {
		return err
	}
	if err := s.Ready(); err != nil {
		return err
	}
	granted, err := s.Sessions.Refresh(request)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, granted)
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) error {
	var request wire.LogoutRequest
	if err := decode(r, &request); err != nil {
		return err
	}
	if err := s.Sessions.Logout(r.Context(), request); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// caller is who a request comes from. Tokens made for an API server are for that alone.
func (s *Server) caller(r *http.Request) (*review.Identity, error) {
	if err := s.Ready(); err != nil {
		return nil, err
	}
	scheme, raw, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, token.ErrInvalid
	}
	return s.Reviewer.Authenticate(strings.TrimSpace(raw), review.Scope{})
}

func (s *Server) whoami(w http.ResponseWriter, r *http.Request) error {
	caller, err := s.caller(r)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, s.Sessions.Whoami(caller))
}

func (s *Server) password(w http.ResponseWriter, r *http.Request) error {
	caller, err := s.caller(r)
	if err != nil {
		return err
	}
	var request wire.PasswordRequest
	if err := decode(r, &request); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), passwordTimeout)
	defer cancel()
	if err := s.Sessions.ChangePassword(ctx, caller, request, address(r)); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) tokens(w http.ResponseWriter, r *http.Request) error {
	caller, err := s.caller(r)
	if err != nil {
		return err
	}
	list, err := s.Sessions.Tokens(caller, r.URL.Query().Get("user"))
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, list)
}

func (s *Server) createToken(w http.ResponseWriter, r *http.Request) error {
	caller, err := s.caller(r)
	if err != nil {
		return err
	}
	var request wire.TokenRequest
	if err := decode(r, &request); err != nil {
		return err
	}
	made, err := s.Sessions.CreateToken(r.Context(), caller, request)
	if err != nil {
		return err
	}
	return write(w, http.StatusCreated, made)
}

func (s *Server) revokeToken(w http.ResponseWriter, r *http.Request) error {
	caller, err := s.caller(r)
	if err != nil {
		return err
	}
	if err := s.Sessions.RevokeToken(r.Context(), caller, r.PathValue("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	_, err := w.Write([]byte("ok\n"))
	return err
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) error {
	if err := s.Ready(); err != nil {
		return err
	}
	return s.health(w, r)
}

// address is where a request comes from, for counting: of IPv6 the network, whose addresses are one customer's.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is6() {
		return netip.PrefixFrom(ip, 64).Masked().String()
	}
	return ip.String()
}
