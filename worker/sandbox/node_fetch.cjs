'use strict';
// Makes Node's own fetch use the network proxy of a sandboxed command. Node before 22.21 and 24 reads
// no proxy variables: its fetch ends in ENETUNREACH, because there is only a loopback device.
// NODE_OPTIONS requires it in every Node of such a command; it loads nothing before the first fetch,
// and does not replace a dispatcher that the program chose. It grants nothing: the proxy judges
// every request, and a program that undoes this file's work has no network.
(() => {
  const [major, minor] = process.versions.node.split('.').map(Number);
  const knowsProxies = major >= 24 || (major === 22 && minor >= 21);
  const active = process.env.SWARM_NETWORK_PROXY_ACTIVE === '1';
  const original = globalThis.fetch;
  if (knowsProxies || !active || !process.env.HTTP_PROXY || typeof original !== 'function') return;
  const DISPATCHER = Symbol.for('undici.globalDispatcher.1');
  const MOST_HEAD_BYTES = 64 * 1024;
  let proxy;
  try {
    proxy = new URL(process.env.HTTP_PROXY);
  } catch {
    return;
  }

  function isLoopback(host) {
    return host === 'localhost' || host.endsWith('.localhost') || host === '[::1]' ||
      /^127(\.\d+){3}$/.test(host);
  }

  // A connector in undici's sense: a tunnel through the proxy, and TLS in it.
  function connect(options, callback) {
    const net = require('node:net');
    const tls = require('node:tls');
    const secure = options.protocol === 'https:';
    const port = options.port || (secure ? 443 : 80);
    const name = options.hostname.replace(/^\[|\]$/g, '');
    const target = `${name.includes(':') ? `[${name}]` : name}:${port}`;
    const socket = net.connect({ host: proxy.hostname, port: Number(proxy.port) });
    let done = false;
    let head = Buffer.alloc(0);

    function finish(error, ready) {
      if (done) return;
      done = true;
      if (error) socket.destroy();
      callback(error, ready);
    }

    function onData(data) {
      head = Buffer.concat([head, data]);
      const end = head.indexOf('\r\n\r\n');
      if (end < 0 && head.length < MOST_HEAD_BYTES) return;
      const text = head.subarray(0, Math.max(end, 0)).toString('latin1');
      const opened = /^HTTP\/1\.[01] 200 /.test(text);
      const size = Number((/^content-length: *(\d+)/im.exec(text) ?? [])[1] ?? 0);
      if (!opened && end >= 0 && head.length < Math.min(end + 4 + size, MOST_HEAD_BYTES)) return;
      socket.off('data', onData);
      socket.pause();
      if (!opened) {
        const said = head.subarray(end + 4).toString().trim() || text.split('\r\n')[0];
        const error = new Error(`the network proxy does not connect to ${target}: ${said}`);
        error.code = 'ERR_PROXY_TUNNEL';
        finish(error, null);
        return;
      }
      if (end + 4 < head.length) socket.unshift(head.subarray(end + 4));
      if (!secure) {
        finish(null, socket);
        return;
      }
      const servername = options.servername || (net.isIP(name) ? undefined : name);
      const inner = tls.connect({ socket, servername, ALPNProtocols: ['http/1.1'] });
      inner.once('secureConnect', () => finish(null, inner));
      inner.once('error', (error) => finish(error, null));
    }

    socket.once('connect', () => socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`));
    socket.on('data', onData);
    socket.once('error', (error) => finish(error, null));
    socket.once('close', () => finish(new Error(`the network proxy hung up on ${target}`), null));
  }

  function install() {
    void globalThis.Headers; // loads undici, and with it the dispatcher
    const plain = globalThis[DISPATCHER];
    if (!plain || plain.constructor.name !== 'Agent') return; // the program chose another one
    const tunnel = new plain.constructor({ connect });
    globalThis[DISPATCHER] = {
      dispatch(options, handler) {
        const origin = new URL(String(options.origin));
        if (isLoopback(origin.hostname)) return plain.dispatch(options, handler);
        if (origin.protocol === 'https:' || options.upgrade) return tunnel.dispatch(options, handler);
        const headers = Array.isArray(options.headers)
          ? [...options.headers, 'host', origin.host]
          : { ...options.headers, host: origin.host };
        const path = origin.origin + options.path;
        return plain.dispatch({ ...options, origin: proxy.origin, path, headers }, handler);
      },
      close: (...rest) => Promise.all([plain.close(), tunnel.close()]).then(() => rest[0]?.()),
      destroy: (...rest) => Promise.all([plain.destroy(), tunnel.destroy()]).then(() => rest.at(-1)?.()),
    };
  }

  let installed = false;
  function fetch(...words) {
    if (!installed) {
      installed = true;
      install();
    }
    return original.apply(this, words);
  }
  const known = Object.getOwnPropertyDescriptor(globalThis, 'fetch');
  Object.defineProperty(globalThis, 'fetch', {
    value: fetch, writable: true, configurable: true, enumerable: known ? known.enumerable : true,
  });
})();
