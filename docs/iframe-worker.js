/* Search without a server. A browser starts no worker for a page of the file system, so the search runs in a frame there.
   The builder would load a script for this from a network if no script had this name. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe")
    #waiting = []

    constructor(url) {
      super()
      this.onmessage = null
      this.#frame.hidden = true
      document.body.append(this.#frame)
      const inside = this.#frame.contentWindow
      inside.postMessage = (data) => setTimeout(() => this.#answer(data))
      const script = inside.document.createElement("script")
      script.src = url
      script.onload = () => {
        const waiting = this.#waiting
        this.#waiting = null
        waiting.forEach((data) => this.postMessage(data))
      }
      inside.document.body.append(script)
    }

    postMessage(data) {
      if (this.#waiting !== null) {
        this.#waiting.push(data)
        return
      }
      const inside = this.#frame.contentWindow
      setTimeout(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })))
    }

    terminate() {
      this.#frame.remove()
    }

    #answer(data) {
      const event = new MessageEvent("message", { data })
      this.onmessage?.(event)
      this.dispatchEvent(event)
    }
  }
}
