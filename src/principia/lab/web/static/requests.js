// Talks to the server: JSON in, JSON out, and an error is the server's own sentence.

export class Refused extends Error {
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }
}

export async function ask(address, { body, method = body === undefined ? "GET" : "POST", signal } = {}) {
  let response;
  try {
    response = await fetch(address, {
      method, signal,
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The server does not answer. Is principia serve still running?", 0);
  }
  const answer = await response.json().catch(() => ({ error: `The server answered ${response.status}.` }));
  if (!response.ok) throw new Refused(answer.error ?? "The server refused.", response.status);
  return answer;
}
