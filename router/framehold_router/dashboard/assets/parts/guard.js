/** Keeps a fault of one page to that page: it says so, and the rest of the dashboard goes on. */
import { Component, html } from "../lib/html.js";
import { Problem } from "./notice.js";
import { Page } from "./page.js";

export class Guard extends Component {
  static getDerivedStateFromError(error) {
    return { error };
  }

  componentDidCatch(error) {
    console.error(error);
  }

  render({ children }, { error }) {
    if (!error) return children;
    const again = () => this.setState({ error: null });
    return html`<${Page} title="A fault in this page"><${Problem} error=${{ message: `It could not be drawn: ${error.message}.` }} again=${again}>
      <p>The fleet is not harmed. <code>framehold status</code> in a terminal tells the same.</p>
    </${Problem}></${Page}>`;
  }
}
